#define _DEFAULT_SOURCE
#include "finetune.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "finetune_internal.h"
#include "io.h"
#include "log.h"
#include "mixed_gemm.h"
#include "resume.h"
#include "stop_signal.h"
#include "trainer_internal.h"
#include "training.h"

/* ---- run folder */

bool finetune_seed_path(char *out, const char *run_dir, uint64_t seed, const char *name, Err *err) {
    char tail[96];
    snprintf(tail, sizeof tail, "seed-%" PRIu64 "%s%s", seed, name ? "/" : "", name ? name : "");
    return training_path(out, run_dir, tail, err);
}

/* True if the folder holds seeds of an earlier start. */
static bool holds_seeds(const char *run_dir) {
    DIR *dir = opendir(run_dir);
    bool found = false;
    for (struct dirent *e; dir && !found && (e = readdir(dir)) != NULL;)
        found = strncmp(e->d_name, "seed-", 5) == 0;
    if (dir) closedir(dir);
    return found;
}

static bool open_run_dir(int *lock, const char *run_dir, ResumeMode resume, Err *err) {
    char path[TRAINING_PATH_SIZE];
    if (!training_path(path, run_dir, "log.txt", err) || !io_make_dirs(run_dir, err)) return false;
    if (!training_lock(lock, run_dir, err)) return false;
    if (checkpoint_any(run_dir))
        return err_set(err, ERR_CONFIG,
                       "%s: holds the checkpoints of a pretraining: give another "
                       "`run`",
                       run_dir);
    if (resume == RESUME_NEVER && holds_seeds(run_dir))
        return err_set(err, ERR_CONFIG,
                       "%s: holds results of an earlier run; continue it with --resume, or give "
                       "another `run`",
                       run_dir);
    io_remove_stale_temps(run_dir);
    return log_open(path, err);
}

/* A run goes on as it began: with the configuration that its folder holds. */
static bool check_resumed(const Finetune *f, Err *err) {
    char path[TRAINING_PATH_SIZE];
    Config stored;
    if (!holds_seeds(f->config.run_dir)) {
        log_warn("--resume: %s holds no seed of an earlier start to go on with: starting at step 0 "
                 "of seed %" PRIu64 " (another folder is named with `run`)",
                 f->config.run_dir, f->config.train.seed);
        return true;
    }
    if (!training_path(path, f->config.run_dir, "config.yaml", err)) return false;
    if (!config_load(&stored, path, NULL, 0, err)) return false;
    bool ok = resume_check_config(&stored, &f->config, err) || err_context(err, "%s", path);
    config_free(&stored);
    return ok;
}

/* ---- seeds */

/* One seed, or what an earlier start made of it. */
static bool run_seed(FinetuneSeed *out, Finetune *f, ResumeMode resume, uint64_t seed, Err *err) {
    bool done = false;
    *out = (FinetuneSeed){0};
    if (resume == RESUME_AUTO && !finetune_read_seed(out, &done, f, seed, err)) return false;
    if (done) {
        log_info("seed %" PRIu64 " is complete: taken from %s/seed-%" PRIu64, seed,
                 f->config.run_dir, seed);
        return true;
    }
    return finetune_begin_seed(f, seed, err) &&
           (finetune_train_seed(out, f, err) || err_context(err, "seed %" PRIu64, seed));
}

static bool run_seeds(FinetuneResult *out, Finetune *f, ResumeMode resume, Err *err) {
    size_t count = f->config.finetune.seeds;
    out->seeds = calloc(count, sizeof *out->seeds);
    if (!out->seeds) return err_set(err, ERR_FAILED, "no memory for %zu seeds", count);
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) {
        out->count = i + 1;
        ok = run_seed(&out->seeds[i], f, resume, f->config.train.seed + i, err);
    }
    return ok;
}

static bool write_results(const FinetuneResult *result, const char *run_dir, Err *err) {
    char path[TRAINING_PATH_SIZE];
    char *text = finetune_result_json(result);
    bool ok = text ? training_path(path, run_dir, "results.json", err) &&
                         io_write_file(path, text, strlen(text), err)
                   : err_set(err, ERR_FAILED, "no memory for results.json");
    free(text);
    return ok;
}

/* Into the log of the whole run, which the seeds' logs have replaced. */
static bool log_results(const FinetuneResult *r, const char *run_dir, Err *err) {
    char path[TRAINING_PATH_SIZE];
    if (!training_path(path, run_dir, "log.txt", err) || !log_open(path, err)) return false;
    const FinetuneSeed *best = &r->seeds[r->best];
    if (r->count > 1)
        log_info("%zu seeds: accuracy %.4f +- %.4f, f1 %.4f +- %.4f, mcc %.4f +- %.4f (mean, "
                 "standard deviation)",
                 r->count, r->mean.accuracy, r->std.accuracy, r->mean.f1, r->std.f1, r->mean.mcc,
                 r->std.mcc);
    log_info("done: best %s %.4f of seed %" PRIu64 ": %s", finetune_metric_name(r->metric),
             finetune_metric(&best->score, r->metric), best->seed, best->checkpoint);
    return true;
}

static bool run_all(FinetuneResult *out, Finetune *f, ResumeMode resume, Err *err) {
    const Config *config = &f->config;
    if (resume == RESUME_AUTO && !check_resumed(f, err)) return false;
    if (!training_write_config(config, config->run_dir, err)) return false;
    training_log_config(config);
    out->metric = config->finetune.metric;
    out->train_rows = f->train.count;
    out->valid_rows = f->valid.count;
    out->majority = f->majority;
    if (!label_set_copy(&out->labels, &f->labels, err) || !run_seeds(out, f, resume, err))
        return false;
    finetune_summarize(out);
    return write_results(out, config->run_dir, err) && log_results(out, config->run_dir, err);
}

bool finetune_run(FinetuneResult *out, const Config *config, ResumeMode resume, Err *err) {
    Finetune f = {0};
    StopSignal signals;
    Err ignored = {0};
    int lock = -1;
    if (!err) err = &ignored;
    *out = (FinetuneResult){0};
    stop_signal_install(&signals);
    bool ok = config_check_task(config, err) && mixed_check(config->model.precision, err) &&
              open_run_dir(&lock, config->run_dir, resume, err) && finetune_open(&f, config, err) &&
              run_all(out, &f, resume, err);
    if (!ok) log_file_only("%s", err->msg);
    finetune_close(&f);
    log_open(NULL, NULL);
    if (lock >= 0) close(lock);
    stop_signal_restore(&signals);
    if (!ok) finetune_result_free(out);
    return ok;
}
