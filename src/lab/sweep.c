#include "sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "sweep_internal.h"

char *sweep_path(const char *dir, const char *name, Err *err) {
    char *path = io_path_join(dir, name);
    if (!path) err_set(err, ERR_FAILED, "%s: no memory for a path", dir);
    return path;
}

/* ---- runs */

static bool make_run(SweepRun *out, const SweepConfig *config, size_t point, size_t task,
                     Err *err) {
    const char *name = config->points[point].name;
    const char *task_name = task == SWEEP_NO_TASK ? NULL : config->task_names[task];
    size_t size = strlen(name) + (task_name ? strlen(task_name) : 0) + sizeof "/finetune-";
    *out = (SweepRun){.point = point, .task = task, .name = malloc(size)};
    if (!out->name) return err_set(err, ERR_FAILED, "no memory for the runs of the sweep");
    snprintf(out->name, size, "%s%s%s", name, task_name ? "/finetune-" : "",
             task_name ? task_name : "");
    out->dir = sweep_path(config->run_dir, out->name, err);
    return out->dir != NULL;
}

static bool make_runs(Sweep *sweep, Err *err) {
    const SweepConfig *config = &sweep->config;
    sweep->per_point = 1 + config->task_count;
    sweep->runs = calloc(config->count * sweep->per_point, sizeof *sweep->runs);
    if (!sweep->runs) return err_set(err, ERR_FAILED, "no memory for the runs of the sweep");
    for (size_t p = 0; p < config->count; p++) {
        for (size_t i = 0; i < sweep->per_point; i++) {
            SweepRun *run = &sweep->runs[sweep->run_count++];
            if (!make_run(run, config, p, i == 0 ? SWEEP_NO_TASK : i - 1, err)) return false;
        }
    }
    return true;
}

bool sweep_open(Sweep *out, const char *path, const char *const *overrides, size_t override_count,
                Err *err) {
    *out = (Sweep){0};
    if (!sweep_config_load(&out->config, path, overrides, override_count, err)) return false;
    if (!make_runs(out, err)) {
        sweep_close(out);
        return false;
    }
    sweep_read_states(out);
    return true;
}

void sweep_close(Sweep *sweep) {
    for (size_t i = 0; i < sweep->run_count; i++) {
        free(sweep->runs[i].name);
        free(sweep->runs[i].dir);
    }
    free(sweep->runs);
    sweep_config_free(&sweep->config);
    *sweep = (Sweep){0};
}

bool sweep_run_config(Config *out, char **shared_run, const Sweep *sweep, const SweepRun *run,
                      Err *err) {
    *shared_run = NULL;
    if (run->task == SWEEP_NO_TASK)
        return sweep_config_point(out, shared_run, &sweep->config, run->point, err);
    const SweepRun *pretrained = &sweep->runs[run->point * sweep->per_point];
    char *init = sweep_path(pretrained->dir, "best.ckpt", err);
    bool ok = init && sweep_config_task(out, &sweep->config, run->task, init, err);
    free(init);
    return ok;
}

/* ---- states */

void sweep_read_states(Sweep *sweep) {
    for (size_t i = 0; i < sweep->run_count; i++) sweep_read_state(&sweep->runs[i]);
}

const char *sweep_state_name(RunState state) {
    static const char *const names[] = {[RUN_RUNNING] = "running",
                                        [RUN_FAILED] = "failed",
                                        [RUN_INTERRUPTED] = "interrupted",
                                        [RUN_PENDING] = "pending",
                                        [RUN_DONE] = "done"};
    return names[state];
}

RunState sweep_point_state(const Sweep *sweep, size_t point) {
    RunState state = RUN_DONE;
    for (size_t i = 0; i < sweep->per_point; i++) {
        RunState of_run = sweep->runs[point * sweep->per_point + i].state;
        if (of_run < state) state = of_run;
    }
    return state;
}

bool sweep_is_chosen(const Sweep *sweep, const SweepOptions *options, size_t point) {
    if (options->index) return point + 1 == options->index;
    bool failed = false;
    for (size_t i = 0; i < sweep->per_point; i++)
        failed |= sweep->runs[point * sweep->per_point + i].state == RUN_FAILED;
    return !options->retry_failed || failed;
}
