/* result.json of a seed, results.json of all, and what they come to together. */
#include <cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "finetune_internal.h"
#include "io.h"
#include "json_fields.h"
#include "training.h"

static const size_t LARGEST_FILE = (size_t)1 << 20;

const char *finetune_metric_name(ClassMetric metric) {
    return metric == METRIC_F1 ? "f1" : metric == METRIC_MCC ? "mcc" : "accuracy";
}

double finetune_metric(const FinetuneScore *score, ClassMetric metric) {
    return metric == METRIC_F1 ? score->f1 : metric == METRIC_MCC ? score->mcc : score->accuracy;
}

bool finetune_is_better(const FinetuneScore *score, const FinetuneScore *than, ClassMetric metric) {
    double left = finetune_metric(score, metric), right = finetune_metric(than, metric);
    return left > right || (left == right && score->loss < than->loss);
}

/* ---- writing */

static void add_score(cJSON *object, const FinetuneScore *score) {
    json_add_number(object, "accuracy", score->accuracy, JSON_EXACT);
    json_add_number(object, "f1", score->f1, JSON_EXACT);
    json_add_number(object, "mcc", score->mcc, JSON_EXACT);
    json_add_number(object, "valid_loss", score->loss, JSON_EXACT);
}

static void add_seed(cJSON *object, const FinetuneSeed *s) {
    json_add_count(object, "seed", s->seed);
    add_score(object, &s->score);
    add_score(cJSON_AddObjectToObject(object, "last"), &s->last);
    json_add_count(object, "best_step", s->best_step);
    json_add_number(object, "best_epoch", s->best_epoch, JSON_EXACT);
    json_add_count(object, "steps", s->steps);
    json_add_number(object, "epochs", s->epochs, JSON_EXACT);
    json_add_number(object, "elapsed_s", s->elapsed_s, JSON_EXACT);
    cJSON_AddBoolToObject(object, "stopped_early", s->stopped_early);
    cJSON_AddBoolToObject(object, "collapsed", s->collapsed);
    cJSON_AddStringToObject(object, "checkpoint", s->checkpoint);
}

bool finetune_write_seed(const FinetuneSeed *seed, const Finetune *f, Err *err) {
    char path[TRAINING_PATH_SIZE];
    cJSON *object = cJSON_CreateObject();
    add_seed(object, seed);
    json_add_number(object, "majority", f->majority, JSON_EXACT);
    json_add_hash(object, "data_hash", f->data_hash);
    json_add_hash(object, "init_hash", f->init_hash);
    char *text = cJSON_Print(object);
    cJSON_Delete(object);
    bool ok = text ? finetune_seed_path(path, f->config.run_dir, seed->seed, "result.json", err) &&
                         io_write_file(path, text, strlen(text), err)
                   : err_set(err, ERR_FAILED, "no memory for result.json");
    cJSON_free(text);
    return ok;
}

char *finetune_result_json(const FinetuneResult *r) {
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "metric", finetune_metric_name(r->metric));
    json_add_count(object, "train_rows", r->train_rows);
    json_add_count(object, "valid_rows", r->valid_rows);
    cJSON *labels = cJSON_AddArrayToObject(object, "labels");
    for (size_t i = 0; i < r->labels.count; i++)
        cJSON_AddItemToArray(labels, cJSON_CreateString(r->labels.names[i]));
    json_add_number(object, "majority", r->majority, JSON_EXACT);
    cJSON *seeds = cJSON_AddArrayToObject(object, "seeds");
    for (size_t i = 0; i < r->count; i++) {
        cJSON *item = cJSON_CreateObject();
        cJSON_AddItemToArray(seeds, item);
        add_seed(item, &r->seeds[i]);
    }
    add_score(cJSON_AddObjectToObject(object, "mean"), &r->mean);
    add_score(cJSON_AddObjectToObject(object, "std"), &r->std);
    json_add_count(object, "best_seed", r->seeds[r->best].seed);
    cJSON_AddStringToObject(object, "checkpoint", r->seeds[r->best].checkpoint);
    char *text = cJSON_PrintUnformatted(object);
    cJSON_Delete(object);
    return text;
}

/* ---- reading */

static bool take_number(double *out, const cJSON *object, const char *name) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);
    *out = cJSON_IsNumber(item) ? item->valuedouble : NAN;
    return cJSON_IsNumber(item);
}

static bool take_score(FinetuneScore *out, const cJSON *object) {
    return take_number(&out->accuracy, object, "accuracy") && take_number(&out->f1, object, "f1") &&
           take_number(&out->mcc, object, "mcc") && take_number(&out->loss, object, "valid_loss");
}

static bool take_count(uint64_t *out, const cJSON *object, const char *name) {
    return json_take_count(out, cJSON_GetObjectItemCaseSensitive(object, name));
}

static bool take_seed(FinetuneSeed *out, const cJSON *object) {
    const cJSON *early = cJSON_GetObjectItemCaseSensitive(object, "stopped_early");
    const cJSON *collapsed = cJSON_GetObjectItemCaseSensitive(object, "collapsed");
    out->stopped_early = cJSON_IsTrue(early);
    out->collapsed = cJSON_IsTrue(collapsed);
    return take_count(&out->seed, object, "seed") && take_score(&out->score, object) &&
           take_score(&out->last, cJSON_GetObjectItemCaseSensitive(object, "last")) &&
           take_count(&out->best_step, object, "best_step") &&
           take_number(&out->best_epoch, object, "best_epoch") &&
           take_count(&out->steps, object, "steps") &&
           take_number(&out->epochs, object, "epochs") &&
           take_number(&out->elapsed_s, object, "elapsed_s") && cJSON_IsBool(early) &&
           cJSON_IsBool(collapsed);
}

static bool check_hash(const cJSON *object, const char *name, uint64_t now, const char *what,
                       Err *err) {
    uint64_t stored = 0;
    if (json_take_hash(&stored, cJSON_GetObjectItemCaseSensitive(object, name)) && stored == now)
        return true;
    return err_set(err, ERR_FAILED,
                   "made with %s (%s %016" PRIx64 ", now %016" PRIx64
                   "); restore it, or give another `run` to start a new one",
                   what, name, stored, now);
}

static bool check_seed(const FinetuneSeed *found, uint64_t wanted, Err *err) {
    if (found->seed == wanted) return true;
    return err_set(err, ERR_FAILED,
                   "the result of seed %" PRIu64 ", wanted that of seed %" PRIu64
                   ": remove the folder to train the seed again",
                   found->seed, wanted);
}

static bool parse_seed(FinetuneSeed *out, const Finetune *f, uint64_t seed, const Bytes *file,
                       Err *err) {
    cJSON *object = cJSON_ParseWithLength((const char *)file->data, file->size);
    bool ok = cJSON_IsObject(object) && take_seed(out, object);
    if (!ok)
        err_set(err, ERR_FAILED, "not the result of a seed: remove it to train the seed again");
    ok = ok && check_seed(out, seed, err) &&
         check_hash(object, "data_hash", f->data_hash, "other rows", err) &&
         check_hash(object, "init_hash", f->init_hash, "another finetune.init", err);
    cJSON_Delete(object);
    return ok;
}

bool finetune_read_seed(FinetuneSeed *out, bool *found, const Finetune *f, uint64_t seed,
                        Err *err) {
    char path[TRAINING_PATH_SIZE], best[TRAINING_PATH_SIZE];
    const char *run_dir = f->config.run_dir;
    Bytes file;
    *out = (FinetuneSeed){0};
    *found = false;
    if (!finetune_seed_path(path, run_dir, seed, "result.json", err) ||
        !finetune_seed_path(best, run_dir, seed, "best.ckpt", err))
        return false;
    if (!io_is_file(path)) return true;
    if (!io_is_file(best))
        return err_set(err, ERR_FAILED,
                       "%s: is there, but not its best.ckpt: remove the folder to train the seed "
                       "again",
                       path);
    if (!io_read_file(&file, path, LARGEST_FILE, err)) return false;
    bool ok = parse_seed(out, f, seed, &file, err) || err_context(err, "%s", path);
    io_bytes_free(&file);
    if (!ok) return false;
    out->checkpoint = strdup(best);
    *found = out->checkpoint != NULL;
    return *found || err_set(err, ERR_FAILED, "no memory for a path");
}

/* ---- over the seeds */

enum { SCORE_MEMBERS = 4 };

static double *score_member(FinetuneScore *score, size_t i) {
    double *const members[SCORE_MEMBERS] = {&score->accuracy, &score->f1, &score->mcc,
                                            &score->loss};
    return members[i];
}

/* Mean of a member over the seeds, and the sample standard deviation; NaN for one seed. */
static void summarize_member(FinetuneResult *r, size_t member) {
    double sum = 0, squares = 0, n = (double)r->count;
    for (size_t i = 0; i < r->count; i++) sum += *score_member(&r->seeds[i].score, member);
    for (size_t i = 0; i < r->count; i++) {
        double d = *score_member(&r->seeds[i].score, member) - sum / n;
        squares += d * d;
    }
    *score_member(&r->mean, member) = sum / n;
    *score_member(&r->std, member) = r->count > 1 ? sqrt(squares / (n - 1)) : NAN;
}

void finetune_summarize(FinetuneResult *out) {
    for (size_t i = 0; i < SCORE_MEMBERS; i++) summarize_member(out, i);
    out->best = 0;
    for (size_t i = 1; i < out->count; i++) {
        if (finetune_is_better(&out->seeds[i].score, &out->seeds[out->best].score, out->metric))
            out->best = i;
    }
}

void finetune_result_free(FinetuneResult *r) {
    for (size_t i = 0; r->seeds && i < r->count; i++) free(r->seeds[i].checkpoint);
    free(r->seeds);
    label_set_free(&r->labels);
    *r = (FinetuneResult){0};
}
