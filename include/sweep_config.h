/* The file of a sweep: which configurations to run.
 *
 *   run: runs/k               folder of the sweep; default runs/<name of the file>
 *   sweep:
 *     base: ../small.yaml     the rest of the keys: `linformer help config`, section sweep
 *     grid: {model.k: [16, 32], model.sharing: [headwise, kv]}
 *     zip: [{model.n: [128, 256], train.batch: [64, 32]}]
 *     exclude: [{model.k: 16, model.sharing: kv}]
 *     seeds: 3
 *
 * The runs are the product of the axes of grid, of the groups of zip, whose keys advance together,
 * and of the seeds, without what exclude names; the last axis advances first. */
#ifndef SWEEP_CONFIG_H
#define SWEEP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"

enum { SWEEP_MAX_POINTS = 10000, SWEEP_MAX_AXES = 32 };

typedef enum SweepCommand { SWEEP_PRETRAIN, SWEEP_FINETUNE } SweepCommand;

/* A choice of one value for each axis. */
typedef struct SweepPoint {
    /* "k=16,sharing=kv,seed=1": a function of the values alone, of letters, digits and ._+-=, only
     * and no other point's */
    char *name;
    /* (axis_count) "model.k=16", values as YAML; borrowed from the axes */
    const char **overrides;
} SweepPoint;

typedef struct SweepConfig {
    char *path;    /* the file it came from */
    char *run_dir; /* `run`, no slash at its end */
    char *base;    /* path of the config that every point overrides */
    SweepCommand command;
    char **axes; /* (axis_count) keys: "model.k" */
    size_t axis_count;
    SweepPoint *points;
    size_t count;
    char *
        *tasks; /* (task_count) paths of the configs that each pretrained point is fine-tuned by */
    char **task_names; /* of their files, without folder and ending; all different */
    size_t task_count;
    char **fixed; /* (fixed_count) overrides of the command line, for every point */
    size_t fixed_count;
    char **given; /* (given_count) all overrides but run, as they were given */
    size_t given_count;
    char **texts; /* (text_count) owned: what points' overrides point to */
    size_t text_count;
} SweepConfig;

/* Reads the file; overrides "run=..." and "sweep.<key>=..." replace its keys, and any other goes to
 * every run's base.  The configuration of every point and task is loaded, so that what is wrong
 * with one is known before the first run.  Fails with ERR_CONFIG and the place; *out is then empty.
 */
bool sweep_config_load(SweepConfig *out, const char *path, const char *const *overrides,
                       size_t override_count, Err *err);
void sweep_config_free(SweepConfig *sweep); /* accepts a zeroed one */

/* The configuration of a point.  Its run is not the point's folder but one that makes the points
 * whose data and tokenizer keys are the same share the default places of tokenizer.model and
 * data.tokens; malloc'd text "run=..." of it in *shared_run unless that is NULL. */
bool sweep_config_point(Config *out, char **shared_run, const SweepConfig *sweep, size_t point,
                        Err *err);

/* That of a fine-tuning of a pretrained point from the checkpoint `init`. */
bool sweep_config_task(Config *out, const SweepConfig *sweep, size_t task, const char *init,
                       Err *err);

/* "key=text" whose value is that very text, whatever characters it has; malloc'd, NULL without
 * memory. */
char *config_override_text(const char *key, const char *text);

#endif
