/* The command lines of a sweep's processes, and what is checked before the first of them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io.h"
#include "resume.h"
#include "sweep_internal.h"

static const char GIVEN_NAME[] = "given.yaml";

/* ---- argument lists */

/* Takes the text over. */
static void add(Arguments *list, char *text) {
    if (!text || list->count + 2 > ARGUMENTS_MAX) {
        list->failed = true;
        free(text);
        return;
    }
    list->items[list->count++] = text;
}

static void add_copy(Arguments *list, const char *text) {
    add(list, strdup(text));
}

void arguments_free(Arguments *list) {
    for (size_t i = 0; i < list->count; i++) free(list->items[i]);
    *list = (Arguments){0};
}

static bool arguments_end(const Arguments *list, Err *err) {
    return !list->failed ||
           err_set(err, ERR_FAILED, "no memory for the arguments of a run, or more than %d",
                   ARGUMENTS_MAX);
}

/* Command, base, and all that the command line and the point set. */
static void add_point(Arguments *list, const Sweep *sweep, size_t point, const char *command) {
    const SweepConfig *config = &sweep->config;
    add_copy(list, "linformer");
    add_copy(list, command);
    add_copy(list, config->base);
    for (size_t i = 0; i < config->fixed_count; i++) add_copy(list, config->fixed[i]);
    for (size_t a = 0; a < config->axis_count; a++)
        add_copy(list, config->points[point].overrides[a]);
}

static void add_threads(Arguments *list, const Config *config, size_t threads) {
    char text[48];
    snprintf(text, sizeof text, "train.threads=%zu", threads);
    if (!config_is_given(config, "train.threads")) add_copy(list, text);
}

bool sweep_prepare_arguments(Arguments *out, const Sweep *sweep, size_t point,
                             const char *shared_run, Err *err) {
    *out = (Arguments){0};
    add_point(out, sweep, point, "prepare");
    add_copy(out, shared_run);
    return arguments_end(out, err);
}

/* Has it a config.yaml of its own, which is there before any checkpoint?  Asked under its lock. */
static bool has_begun(const SweepRun *run) {
    char *own = sweep_path(run->dir, "config.yaml", NULL);
    bool begun = own && io_is_file(own);
    free(own);
    return begun;
}

bool sweep_run_arguments(Arguments *out, const Sweep *sweep, const SweepRun *run,
                         const Config *config, size_t threads, Err *err) {
    bool is_task = run->task != SWEEP_NO_TASK;
    bool pretrains = !is_task && sweep->config.command == SWEEP_PRETRAIN;
    *out = (Arguments){0};
    if (is_task) {
        add_copy(out, "linformer");
        add_copy(out, "finetune");
        add_copy(out, sweep->config.tasks[run->task]);
        add(out, config_override_text("finetune.init", config->finetune.init));
    } else {
        add_point(out, sweep, run->point, pretrains ? "pretrain" : "finetune");
    }
    add(out, config_override_text("run", run->dir));
    /* a fine-tuning takes its checkpoint's tokenizer */
    bool from_scratch = config->finetune.init && strcmp(config->finetune.init, "none") == 0;
    if (pretrains || from_scratch)
        add(out, config_override_text("tokenizer.model", config->tokenizer.model));
    if (pretrains) add(out, config_override_text("data.tokens", config->data.tokens));
    add_threads(out, config, threads);
    if (has_begun(run)) add_copy(out, "--resume");
    return arguments_end(out, err);
}

/* ---- what a run was started with */

bool sweep_write_given(const SweepRun *run, const Config *config, Err *err) {
    char *path = sweep_path(run->dir, GIVEN_NAME, err), *yaml = config_to_yaml(config);
    bool ok = path && yaml ? io_write_file(path, yaml, strlen(yaml), err)
                           : err_set(err, ERR_FAILED, "no memory for %s", GIVEN_NAME);
    free(path);
    free(yaml);
    return ok;
}

bool sweep_check_given(const Sweep *sweep, const SweepRun *run, Err *err) {
    Config stored, config;
    char *shared_run;
    char *path = sweep_path(run->dir, GIVEN_NAME, err),
         *own = sweep_path(run->dir, "config.yaml", err);
    bool there = path && own && io_is_file(path) && io_is_file(own), ok = path && own;
    if (there) ok = config_load(&stored, path, NULL, 0, err);
    if (there && ok) {
        ok = sweep_run_config(&config, &shared_run, sweep, run, err);
        if (ok) {
            ok = resume_check_config(&stored, &config, err) || err_context(err, "%s", run->dir);
            config_free(&config);
            free(shared_run);
        }
        config_free(&stored);
    }
    free(path);
    free(own);
    return ok;
}
