#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json_fields.h"
#include "log.h"
#include "sweep.h"

/* ---- results */

/* "7  failed       k=16,seed=1  pretrain done, sst2 failed", a line a point; index: of this one
 * alone, from 1, or 0. */
static void print_list(const Sweep *sweep, size_t index) {
    for (size_t p = 0; p < sweep->config.count; p++) {
        if (index && p + 1 != index) continue;
        const SweepRun *runs = &sweep->runs[p * sweep->per_point];
        printf("%5zu  %-11s  %s", p + 1, sweep_state_name(sweep_point_state(sweep, p)),
               sweep->config.points[p].name);
        for (size_t i = 0; sweep->per_point > 1 && i < sweep->per_point; i++)
            printf("%s %s %s", i ? "," : " ", i ? sweep->config.task_names[i - 1] : "pretrain",
                   sweep_state_name(runs[i].state));
        printf("\n");
    }
}

static cJSON *run_object(const Sweep *sweep, const SweepRun *run) {
    const SweepConfig *config = &sweep->config;
    cJSON *object = cJSON_CreateObject(), *values;
    cJSON_AddNumberToObject(object, "index", (double)(run->point + 1));
    cJSON_AddStringToObject(object, "name", run->name);
    if (run->task != SWEEP_NO_TASK)
        cJSON_AddStringToObject(object, "task", config->task_names[run->task]);
    cJSON_AddStringToObject(object, "state", sweep_state_name(run->state));
    cJSON_AddStringToObject(object, "run", run->dir);
    if (run->state == RUN_DONE || run->state == RUN_FAILED)
        json_add_number(object, "seconds", run->seconds, 6);
    if (run->state == RUN_FAILED) {
        cJSON_AddNumberToObject(object, "exit_code", run->exit_code);
        cJSON_AddNumberToObject(object, "signal", run->signal);
    }
    values = cJSON_AddObjectToObject(object, "values");
    for (size_t a = 0; a < config->axis_count; a++)
        cJSON_AddStringToObject(values, config->axes[a],
                                strchr(config->points[run->point].overrides[a], '=') + 1);
    return object;
}

static bool print_list_json(const Sweep *sweep, size_t index, Err *err) {
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "sweep", sweep->config.path);
    cJSON_AddStringToObject(object, "run", sweep->config.run_dir);
    cJSON_AddNumberToObject(object, "count", (double)sweep->config.count);
    cJSON *runs = cJSON_AddArrayToObject(object, "runs");
    for (size_t i = 0; i < sweep->run_count; i++) {
        if (!index || sweep->runs[i].point + 1 == index)
            cJSON_AddItemToArray(runs, run_object(sweep, &sweep->runs[i]));
    }
    return print_json(object, err);
}

static bool print_states(const Sweep *sweep, size_t index, bool json, Err *err) {
    if (json) return print_list_json(sweep, index, err);
    print_list(sweep, index);
    return true;
}

/* ---- the three ways */

static bool submit(const Sweep *sweep, const SweepOptions *options, bool dry, bool json, Err *err) {
    char *path;
    size_t jobs;
    if (!sweep_write_slurm(&path, &jobs, sweep, options, "/proc/self/exe", err)) return false;
    bool ok = true;
    if (jobs == 0) log_info("nothing to do in %s", sweep->config.run_dir);
    if (json) {
        cJSON *object = cJSON_CreateObject();
        if (path) cJSON_AddStringToObject(object, "script", path);
        cJSON_AddNumberToObject(object, "jobs", (double)jobs);
        ok = print_json(object, err);
    } else if (jobs > 0) {
        printf("%s: %zu jobs\n", path, jobs);
    }
    if (ok && jobs > 0 && !dry) ok = sweep_submit_slurm(path, err);
    free(path);
    return ok;
}

static bool execute(Sweep *sweep, const SweepOptions *options, bool json, Err *err) {
    Err fault = {0};
    bool ok = sweep_execute(sweep, options, "/proc/self/exe", &fault);
    bool begun = ok || fault.code != ERR_CONFIG;
    if (begun && !print_states(sweep, options->index, json, err)) return false;
    if (!ok) *err = fault;
    return ok;
}

static bool check_options(const Options *o, Err *err) {
    if (o->dry_run && !o->slurm)
        return err_set(err, ERR_CONFIG, "--dry-run goes with --slurm; --list shows the runs");
    if (o->list && (o->slurm || o->index || o->jobs || o->fail_fast || o->retry_failed))
        return err_set(err, ERR_CONFIG,
                       "--list shows all runs and starts none: leave out --slurm, --index, --jobs, "
                       "--fail-fast and --retry-failed");
    if (o->slurm && (o->index || o->fail_fast))
        return err_set(err, ERR_CONFIG,
                       "--slurm: every job is one --index, and knows no other's "
                       "failure: leave out --index and --fail-fast");
    if (o->index && o->retry_failed)
        return err_set(err, ERR_CONFIG, "--index repeats a failed run: leave out --retry-failed");
    return true;
}

static bool run(const Args *args, Err *err) {
    const Options *o = &args->options;
    const SweepOptions options = {.jobs = o->jobs,
                                  .index = o->index,
                                  .fail_fast = o->fail_fast,
                                  .retry_failed = o->retry_failed};
    Sweep sweep = {0};
    for (size_t i = 1; i < args->count; i++) {
        if (!strchr(args->items[i], '='))
            return err_set(err, ERR_CONFIG,
                           "unexpected argument %s: overrides have the form section.key=value",
                           args->items[i]);
    }
    bool ok = check_options(o, err) &&
              sweep_open(&sweep, args->items[0], args->items + 1, args->count - 1, err);
    if (ok && o->list)
        ok = print_states(&sweep, 0, o->json, err);
    else if (ok && o->slurm)
        ok = submit(&sweep, &options, o->dry_run, o->json, err);
    else if (ok)
        ok = execute(&sweep, &options, o->json, err);
    sweep_close(&sweep);
    return ok;
}

static const Option options[] = {
    {"--jobs", OPTION_COUNT, offsetof(Options, jobs), 1, 4096, "J",
     "runs at a time (1); each has 1/J of the threads unless train.threads is given"},
    {"--list", OPTION_FLAG, offsetof(Options, list), 0, 0, NULL,
     "show the runs and their states, a line each, and start none"},
    {"--index", OPTION_COUNT, offsetof(Options, index), 1, 1e6, "I",
     "this run of the list alone, for job arrays"},
    {"--retry-failed", OPTION_FLAG, offsetof(Options, retry_failed), 0, 0, NULL,
     "only what failed before"},
    {"--fail-fast", OPTION_FLAG, offsetof(Options, fail_fast), 0, 0, NULL,
     "the first failure stops the other runs, which save"},
    {"--slurm", OPTION_FLAG, offsetof(Options, slurm), 0, 0, NULL,
     "write RUN/sweep.sbatch, a job array, and submit it with sbatch"},
    {"--dry-run", OPTION_FLAG, offsetof(Options, dry_run), 0, 0, NULL,
     "with --slurm: write it only"},
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_HELP,
    {0},
};

const Command command_sweep = {
    .name = "sweep",
    .arguments = "CONFIG [section.key=value ...]",
    .summary = "a grid of trainings from one file, in parallel, resumable, or as a job array",
    .notes =
        "The file has `run` and a section `sweep` (`linformer help config` lists its keys); "
        "overrides of sweep.* and run change\n"
        "it, all others go to every run. Each run has a folder below `run`, named from its values; "
        "tokenizer and tokens are\n"
        "prepared once, before the first. States are pending, running, done, failed and "
        "interrupted, read from the folders.\n"
        "Started again, it does what is missing, goes on with what was interrupted and repeats "
        "what failed; what is done\n"
        "stays. A run that fails is shown with the end of its output.txt, and the others go on; "
        "the exit status is then 1.\n"
        "SIGINT, SIGTERM and SIGUSR1 are passed on: the runs save, and the status is 75.\n"
        "A Slurm job has train.threads CPUs, or this machine's by --jobs; SBATCH_PARTITION and the "
        "like set the rest.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .own_signals = true,
    .run = run,
};
