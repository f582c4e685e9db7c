/* One run: its configuration, its metrics, its scores. */
#include <cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "report_internal.h"
#include "sweep_internal.h"

static const size_t LARGEST_CONFIG = (size_t)1 << 20, LARGEST_LOG = (size_t)1 << 31;

void report_run_free(ReportRun *run) {
    free(run->dir);
    free(run->name);
    free(run->points);
    config_free(&run->config);
    *run = (ReportRun){0};
}

/* ---- numbers of JSON ---- */

static double number(const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

/* NULL where the file is missing or no JSON object. */
static cJSON *read_object(const char *dir, const char *name) {
    Bytes file = {0};
    cJSON *object = NULL;
    char *path = io_path_join(dir, name);
    if (path && io_is_file(path) && io_read_file(&file, path, LARGEST_CONFIG, NULL) && file.data)
        object = cJSON_ParseWithLength((const char *)file.data, file.size);
    io_bytes_free(&file);
    free(path);
    if (cJSON_IsObject(object)) return object;
    cJSON_Delete(object);
    return NULL;
}

/* ---- metrics.jsonl ---- */

static bool take_line(ReportPoint *out, const char *line, size_t size) {
    cJSON *object = cJSON_ParseWithLength(line, size);
    *out = (ReportPoint){.step = number(object, "step"),
                         .epoch = number(object, "epoch"),
                         .tokens = number(object, "tokens"),
                         .seconds = number(object, "elapsed_s"),
                         .loss = number(object, "loss"),
                         .valid_loss = number(object, "valid_loss"),
                         .valid_ppl = number(object, "valid_ppl"),
                         .unigram_entropy = number(object, "unigram_entropy"),
                         .accuracy = number(object, "accuracy")};
    cJSON_Delete(object);
    return out->step >= 0;
}

static void take_last(ReportRun *run, const ReportPoint *point) {
    run->steps = point->step;
    run->tokens = point->tokens;
    run->seconds = point->seconds;
    run->loss = point->loss;
}

/* Scores of the evaluations: the last one, and the best perplexity. */
static void take_evaluation(ReportRun *run, const ReportPoint *point) {
    if (isnan(point->valid_loss) || run->is_task) return;
    run->unigram_entropy = point->unigram_entropy;
    run->score.loss = point->valid_loss;
    run->score.ppl = point->valid_ppl;
    if (!(run->best_ppl <= point->valid_ppl)) run->best_ppl = point->valid_ppl;
}

bool report_read_metrics(ReportRun *run, const char *dir, Err *err) {
    Bytes file = {0};
    char *path = report_path(dir, "metrics.jsonl", err);
    size_t room = 0;
    bool ok = path != NULL;
    if (ok && io_is_file(path)) ok = io_read_file(&file, path, LARGEST_LOG, err);
    free(path);
    const char *at = (const char *)file.data, *end = at ? at + file.size : NULL;
    while (ok && at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        if (run->count == room) {
            room = room ? 2 * room : 256;
            ReportPoint *grown = realloc(run->points, room * sizeof *grown);
            ok = grown || err_set(err, ERR_FAILED, "no memory for %s/metrics.jsonl", dir);
            if (grown) run->points = grown;
        }
        bool is_line = ok && take_line(&run->points[run->count], at, (size_t)(stop - at));
        if (is_line) take_evaluation(run, &run->points[run->count++]);
        run->damaged += ok && !is_line && newline; /* half a line is one that is being written */
        at = stop + 1;
    }
    io_bytes_free(&file);
    if (ok && run->count) {
        take_last(run, &run->points[run->count - 1]);
        run->tokens_per_s = run->seconds > 0 ? run->tokens / run->seconds : NAN;
    }
    return ok;
}

/* ---- states ---- */

static bool is_complete(const ReportRun *run) {
    const TrainConfig *train = &run->config.train;
    if (run->count == 0) return false;
    const ReportPoint *last = &run->points[run->count - 1];
    switch (train->budget_unit) {
    case BUDGET_STEPS: return last->step >= train->budget;
    case BUDGET_TOKENS: return last->tokens >= train->budget;
    case BUDGET_HOURS: return last->seconds >= 3600 * train->budget - 1;
    case BUDGET_EPOCHS: return last->epoch >= train->budget * (1 - 1e-9);
    }
    return false;
}

/* Of a folder; RUN_INTERRUPTED where it has no record and no process. */
static void read_state(ReportRun *run, const char *dir) {
    SweepRun record = {.dir = (char *)dir};
    sweep_read_state(&record);
    run->state = record.state == RUN_PENDING ? RUN_INTERRUPTED : record.state;
}

/* ---- the run ---- */

static bool begin_run(ReportRun *out, const char *dir, const char *name, Err *err) {
    *out = (ReportRun){.dir = strdup(dir),
                       .name = strdup(name),
                       .score = {NAN, NAN, NAN, NAN, NAN},
                       .best_ppl = NAN,
                       .unigram_entropy = NAN,
                       .majority = NAN,
                       .steps = NAN,
                       .tokens = NAN,
                       .seconds = NAN,
                       .tokens_per_s = NAN,
                       .loss = NAN,
                       .repeats = REPORT_NONE};
    return (out->dir && out->name) || err_set(err, ERR_FAILED, "no memory for a run");
}

/* config.yaml, which the run wrote, or what a sweep started it with.  A fault of the file is not
 * the report's: err->code is then ERR_CONFIG. */
static bool read_config(Config *out, bool *is_only_given, const char *dir, Err *err) {
    Bytes file = {0};
    char *path = report_path(dir, "config.yaml", err);
    *out = (Config){0};
    *is_only_given = path && !io_is_file(path);
    if (*is_only_given) {
        free(path);
        path = report_path(dir, "given.yaml", err);
    }
    if (!path) return false;
    bool ok = io_read_file(&file, path, LARGEST_CONFIG, err) &&
              config_from_yaml(out, file.data ? (const char *)file.data : "", path, err);
    if (!ok && err) err->code = ERR_CONFIG;
    io_bytes_free(&file);
    free(path);
    return ok;
}

static bool append(Report *report, ReportRun *run, Err *err) {
    ReportRun *grown = report_grow(report->runs, &report->run_count, sizeof *grown, err);
    if (!grown) return false;
    report->runs = grown;
    grown[report->run_count - 1] = *run;
    *run = (ReportRun){0};
    return true;
}

static bool add_pretraining(Report *report, const char *dir, const char *name, Config *config,
                            Err *err) {
    ReportRun run;
    bool ok = begin_run(&run, dir, name, err);
    run.config = *config;
    *config = (Config){0};
    run.seed = run.config.train.seed;
    ok = ok && report_read_metrics(&run, dir, err);
    if (ok) {
        read_state(&run, dir);
        if (run.state == RUN_INTERRUPTED && is_complete(&run)) run.state = RUN_DONE;
        ok = append(report, &run, err);
    }
    report_run_free(&run);
    return ok;
}

/* ---- fine-tunings ---- */

static void take_score(ReportRun *run, const cJSON *seed) {
    run->score = (ReportScore){.loss = number(seed, "valid_loss"),
                               .ppl = NAN,
                               .accuracy = number(seed, "accuracy"),
                               .f1 = number(seed, "f1"),
                               .mcc = number(seed, "mcc")};
    double steps = number(seed, "steps"), seconds = number(seed, "elapsed_s");
    if (!isnan(steps)) run->steps = steps;
    if (!isnan(seconds)) run->seconds = seconds;
}

/* result: of the seed, NULL where it has none; state: of the fine-tuning. */
static bool add_seed(Report *report, const ReportRun *task, const char *yaml, uint64_t seed,
                     const cJSON *result, double majority, Err *err) {
    ReportRun run;
    char leaf[40], name[1024];
    snprintf(leaf, sizeof leaf, "seed-%" PRIu64, seed);
    snprintf(name, sizeof name, "%.900s/%s", task->name, leaf);
    char *dir = report_path(task->dir, leaf, err);
    bool ok = dir && begin_run(&run, dir, name, err);
    if (!ok) {
        free(dir);
        return false;
    }
    cJSON *own = result ? NULL : read_object(dir, "result.json");
    run.is_task = true;
    run.seed = seed;
    run.majority = own ? number(own, "majority") : majority;
    ok = config_from_yaml(&run.config, yaml, task->dir, err) && report_read_metrics(&run, dir, err);
    if (ok) {
        if (result || own) take_score(&run, result ? result : own);
        run.state = result || own             ? RUN_DONE
                    : task->state == RUN_DONE ? RUN_INTERRUPTED
                                              : task->state;
        ok = append(report, &run, err);
    }
    report_run_free(&run);
    cJSON_Delete(own);
    free(dir);
    return ok;
}

static const cJSON *find_seed(const cJSON *results, uint64_t seed) {
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(results, "seeds")) {
        if (number(item, "seed") == (double)seed) return item;
    }
    return NULL;
}

/* Every seed that has a folder or a result. */
static bool add_seeds(Report *report, const ReportRun *task, const char *yaml, Err *err) {
    const Config *config = &task->config;
    cJSON *results = read_object(task->dir, "results.json");
    double majority = results ? number(results, "majority") : NAN;
    bool ok = true, any = false;
    for (size_t i = 0; ok && i < config->finetune.seeds; i++) {
        char leaf[40];
        uint64_t seed = config->train.seed + i;
        snprintf(leaf, sizeof leaf, "seed-%" PRIu64, seed);
        const cJSON *result = find_seed(results, seed);
        char *dir = report_path(task->dir, leaf, err);
        bool there = dir && (result || io_is_dir(dir));
        any |= there;
        ok = dir && (!there || add_seed(report, task, yaml, seed, result, majority, err));
        free(dir);
    }
    /* begun, and nothing to show yet */
    if (ok && !any) ok = add_seed(report, task, yaml, config->train.seed, NULL, NAN, err);
    cJSON_Delete(results);
    return ok;
}

static bool add_finetuning(Report *report, const char *dir, const char *name, Config *config,
                           Err *err) {
    ReportRun task;
    bool ok = begin_run(&task, dir, name, err);
    task.config = *config;
    *config = (Config){0};
    if (ok) read_state(&task, dir);
    char *yaml = ok ? config_to_yaml(&task.config) : NULL;
    ok = ok && (yaml || err_set(err, ERR_FAILED, "no memory for a configuration")) &&
         add_seeds(report, &task, yaml, err);
    free(yaml);
    report_run_free(&task);
    return ok;
}

bool report_read_run(Report *report, const char *dir, const char *name, Err *err) {
    Config config;
    Err fault = {0};
    bool is_only_given;
    size_t first = report->run_count;
    if (!read_config(&config, &is_only_given, dir, &fault)) {
        if (fault.code == ERR_CONFIG) return report_add_fault(report, dir, fault.msg, err);
        return err_set(err, ERR_FAILED, "%s", fault.msg);
    }
    bool is_task = config.finetune.task != TASK_NONE;
    bool ok = (is_task ? add_finetuning : add_pretraining)(report, dir, name, &config, err);
    for (size_t i = first; i < report->run_count; i++)
        report->runs[i].is_only_given = is_only_given;
    config_free(&config);
    return ok;
}
