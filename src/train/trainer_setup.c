/* Everything before step 0, and the saves. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file_lock.h"
#include "io.h"
#include "mixed_gemm.h"
#include "resume.h"
#include "system_memory.h"
#include "threads.h"
#include "train_memory.h"
#include "trainer_internal.h"
#include "training.h"
#include "warm_start.h"

enum { PATH_SIZE = TRAINING_PATH_SIZE };


static bool run_path(char *out, const Trainer *t, const char *name, Err *err) {
    return training_path(out, t->config.run_dir, name, err);
}

/* ---- run folder */

static bool open_run_dir(Trainer *t, ResumeMode resume, Err *err) {
    char path[PATH_SIZE];
    if (!run_path(path, t, "log.txt", err) || !io_make_dirs(t->config.run_dir, err)) return false;
    if (!training_lock(&t->run_dir_lock, t->config.run_dir, err)) return false;
    if (resume == RESUME_NEVER && checkpoint_any(t->config.run_dir)) {
        return err_set(err, ERR_CONFIG,
                       "%s: holds checkpoints of an earlier run; continue it with --resume, or "
                       "give another `run`",
                       t->config.run_dir);
    }
    io_remove_stale_temps(t->config.run_dir);
    return log_open(path, err);
}

/* ---- data */

/* The tokenizer and the tokens, made where they are missing or stale. */
static bool prepare_data(Trainer *t, uint64_t kept_tokenizer, Err *err) {
    Config *config = &t->config;
    char reason[256] = "";
    if (!tokenizer_ensure(config, kept_tokenizer, err) ||
        !tokenizer_load(&t->tokenizer, config->tokenizer.model, err) ||
        !tokenizer_take_config(config, t->tokenizer, err))
        return false;
    if (prepare_is_current(config, reason, sizeof reason)) return true;
    log_info("prepare: %s", reason);
    return prepare_run(config, err);
}

static bool open_data(Trainer *t, uint64_t kept_tokenizer, Err *err) {
    const Config *config = &t->config;
    Manifest *manifest = &t->manifest;
    if (!prepare_data(t, kept_tokenizer, err)) return false;
    if (!manifest_load(manifest, config->data.tokens, err)) return false;
    if (tokenizer_hash(t->tokenizer) != manifest->tokenizer_hash) {
        return err_set(err, ERR_FAILED,
                       "%s: the tokens in %s were made with another tokenizer (hash %016" PRIx64
                       ", this one's is "
                       "%016" PRIx64 "); run `prepare`",
                       config->tokenizer.model, config->data.tokens, manifest->tokenizer_hash,
                       tokenizer_hash(t->tokenizer));
    }
    if (!dataset_open(&t->train, &manifest->train, manifest, config->model.n, err))
        return err_context(err, "data.train");
    if (manifest->valid.shard_count > 0 &&
        !dataset_open(&t->valid, &manifest->valid, manifest, config->model.n, err)) {
        return err_context(err, "data.valid");
    }
    t->plan = (BatchPlan){.seed = config->train.seed,
                          .mask_rate = config->train.mask_rate,
                          .short_rate = config->train.short_rate,
                          .n = config->model.n,
                          .vocab = t->config.model.vocab};
    t->budget = budget_create(&config->train, dataset_sequences(t->train));
    return true;
}

/* The same while no other process changes the files; they are mapped once they are open. */
static bool open_data_alone(Trainer *t, const Checkpoint *from, bool is_warm, Err *err) {
    int tokenizer = -1, tokens = -1;
    bool ok = tokenizer_lock(&tokenizer, &t->config, err) &&
              prepare_lock(&tokens, &t->config, err) &&
              (!is_warm || warm_start_tokenizer(from, &t->config, err)) &&
              open_data(t, from->map.data ? from->tokenizer_hash : 0, err);
    file_unlock(&tokens);
    file_unlock(&tokenizer);
    return ok;
}

static void log_data(const Trainer *t) {
    size_t sequences = dataset_sequences(t->train), tokens = dataset_tokens(t->train);
    double mean = (double)tokens / (double)sequences;
    log_info("data: %zu tokens in %zu sequences an epoch (%.0f a sequence, at most %zu), "
             "vocabulary %zu; unigram entropy %.3f nats",
             tokens, sequences, mean, t->config.model.n, t->config.model.vocab,
             t->manifest.train.unigram_entropy);
    if (t->valid) {
        log_info("held-out: %zu tokens in %zu sequences; unigram entropy %.3f nats",
                 dataset_tokens(t->valid), dataset_sequences(t->valid),
                 t->manifest.valid.unigram_entropy);
    } else {
        log_info("held-out: none (data.valid is empty): no evaluation, no best.ckpt");
    }
    uint64_t steps = budget_steps(&t->budget, mean);
    double samples = (double)steps * (double)t->budget.batch;
    if (steps) {
        log_info("budget: %s%" PRIu64 " steps of %zu sequences, %.2f epochs",
                 t->budget.unit == BUDGET_TOKENS ? "about " : "", steps, t->budget.batch,
                 samples / (double)sequences);
    } else {
        log_info("budget: %.4g hours, %zu sequences a step", t->config.train.budget,
                 t->budget.batch);
    }
    log_info("loss: nats, mean over the masked tokens");
}

/* ---- memory */

static bool allocate(Trainer *t, Err *err) {
    const ModelConfig *model = &t->config.model;
    if (!train_micro_batch(&t->micro_batch, &t->config, &t->table, err)) return false;
    if (t->config.train.memory > 0) t->config.train.micro_batch = t->micro_batch;
    t->plan.most_sequences = train_most_sequences(&t->config, t->micro_batch);
    t->plan.most_tokens = t->micro_batch * model->n;
    TrainMemory memory;
    return train_memory(&memory, &t->config, &t->table, t->micro_batch, err) &&
           train_memory_check(&memory, &t->config, t->micro_batch, err) &&
           train_blocks_create(&t->blocks, &t->table, model, &t->config.optimizer, err) &&
           activations_create(&t->acts, model, t->plan.most_sequences, t->plan.most_tokens,
                              ACTS_TRAINING, err) &&
           batch_create(&t->batch, t->micro_batch, model->n, err);
}

/* ---- start and resume */

static bool check_hash(const char *what, const char *path, uint64_t stored, uint64_t found,
                       Err *err) {
    if (stored == found) return true;
    return err_set(err, ERR_FAILED,
                   "%s: the run was started with another %s (hash %016" PRIx64 ", now %016" PRIx64
                   "); restore it, or "
                   "give another `run` to start a new one",
                   path, what, stored, found);
}

/* At step 0, with fresh weights or those of train.init. */
static bool begin(Trainer *t, const Checkpoint *init, Err *err) {
    real *weights = t->blocks.weights.block;
    t->state = (TrainState){.best_valid_loss = INFINITY,
                            .data_hash = t->manifest.data_hash,
                            .dataset_sequences = dataset_sequences(t->train)};
    if (init->map.data) return checkpoint_read(init, &t->table, weights, NULL, NULL, err);
    params_init(weights, &t->table, &t->config.model, t->config.train.seed);
    return true;
}

/* Where the checkpoint stood. */
static bool go_on(Trainer *t, const Checkpoint *from, Err *err) {
    const Config *config = &t->config;
    if (!check_hash("tokenizer", config->tokenizer.model, from->tokenizer_hash,
                    tokenizer_hash(t->tokenizer), err) ||
        !checkpoint_check_vocab(from, config->model.vocab, err))
        return false;
    if (!check_hash("text", config->data.tokens, from->state.data_hash, t->manifest.data_hash, err))
        return false;
    if (from->state.dataset_sequences != dataset_sequences(t->train)) {
        return err_set(err, ERR_FAILED,
                       "%s: %zu sequences an epoch, the run was started with %" PRIu64
                       "; give another `run` to start "
                       "a new one",
                       config->data.tokens, dataset_sequences(t->train),
                       from->state.dataset_sequences);
    }
    t->state = from->state;
    return checkpoint_read(from, &t->table, t->blocks.weights.block, t->blocks.adam_m,
                           t->blocks.adam_v, err);
}

static bool open_metrics(Trainer *t, Err *err) {
    double elapsed = 0;
    if (!run_log_open(&t->log, &elapsed, t->config.run_dir, t->state.step, err)) return false;
    /* checkpoints hold the time only where the budget is made of it */
    if (t->config.train.budget_unit != BUDGET_HOURS) t->state.elapsed_s = elapsed;
    return true;
}

/* Opens the newest valid checkpoint of the run and checks that it may be continued; *out stays
 * zeroed where there is none. */
static bool open_newest(Checkpoint *out, const Trainer *t, ResumeMode resume, Err *err) {
    char *path = NULL;
    if (resume != RESUME_AUTO) return true;
    if (!checkpoint_any(t->config.run_dir)) {
        log_warn("--resume: %s holds no checkpoint to continue from: starting at step 0 (another "
                 "folder is named with `run`)",
                 t->config.run_dir);
        return true;
    }
    /* files that are all damaged are an error: never a silent start from random weights */
    bool ok =
        checkpoint_find_newest(&path, t->config.run_dir, err) && checkpoint_open(out, path, err);
    if (ok) {
        log_info("continuing from %s: step %" PRIu64, path, out->state.step);
        ok = resume_check_config(&out->config, &t->config, err);
        if (!ok) err_context(err, "%s", path);
    }
    free(path);
    return ok;
}

/* What the run starts from: its own newest checkpoint, train.init, or nothing (*out zeroed). */
static bool open_start(Checkpoint *out, bool *is_warm, const Trainer *t, ResumeMode resume,
                       Err *err) {
    if (!open_newest(out, t, resume, err)) return false;
    *is_warm = !out->map.data && t->config.train.init;
    return !*is_warm || warm_start_open(out, &t->config, err);
}

bool trainer_create(Trainer *out, const Config *config, ResumeMode resume, Err *err) {
    Checkpoint from = {0};
    bool is_warm = false;
    *out = (Trainer){.config = *config, .log = RUN_LOG_CLOSED, .run_dir_lock = -1};
    bool ok = mixed_check(config->model.precision, err) && open_run_dir(out, resume, err) &&
              threads_start(config->train.threads, err) &&
              open_start(&from, &is_warm, out, resume, err) &&
              open_data_alone(out, &from, is_warm, err) &&
              param_table_create(&out->table, &out->config.model, err);
    if (ok) {
        training_log_model(&out->config.model, &out->table);
        log_data(out);
    }
    bool is_new = is_warm || !from.map.data;
    ok = ok && allocate(out, err) && (is_new ? begin : go_on)(out, &from, err) &&
         training_write_config(&out->config, out->config.run_dir, err) && open_metrics(out, err);
    if (ok) training_log_config(&out->config);
    checkpoint_close(&from);
    if (!ok) {
        if (err && err->code == ERR_SIGNAL) training_explain_early_stop(config->run_dir, err);
        if (err) log_file_only("%s", err->msg);
        trainer_destroy(out);
    }
    return ok;
}

void trainer_destroy(Trainer *t) {
    run_log_close(&t->log);
    batch_destroy(&t->batch);
    activations_destroy(&t->acts);
    train_blocks_destroy(&t->blocks);
    param_table_destroy(&t->table);
    if (t->train) dataset_close(t->train);
    if (t->valid) dataset_close(t->valid);
    if (t->tokenizer) tokenizer_destroy(t->tokenizer);
    manifest_free(&t->manifest);
    log_open(NULL, NULL);
    if (t->run_dir_lock >= 0) close(t->run_dir_lock);
    *t = (Trainer){.log = RUN_LOG_CLOSED, .run_dir_lock = -1};
}

/* ---- saving */

static CheckpointContent content_of(const Trainer *t, const char *kind) {
    return (CheckpointContent){.kind = kind,
                               .config = &t->config,
                               .state = &t->state,
                               .table = &t->table,
                               .weights = t->blocks.weights.block,
                               .tokenizer = tokenizer_bytes(t->tokenizer)};
}

static bool save_full(const Trainer *t, const char *path, Err *err) {
    CheckpointContent content = content_of(t, "pretrain");
    content.adam_m = t->blocks.adam_m;
    content.adam_v = t->blocks.adam_v;
    return checkpoint_save(path, &content, err);
}

bool trainer_save_last(Trainer *t, Err *err) {
    char path[PATH_SIZE];
    return run_path(path, t, "last.ckpt", err) && run_log_sync(&t->log, err) &&
           save_full(t, path, err);
}

bool trainer_save_best(Trainer *t, Err *err) {
    char path[PATH_SIZE];
    CheckpointContent content = content_of(t, "weights");
    return run_path(path, t, "best.ckpt", err) && checkpoint_save(path, &content, err);
}

bool trainer_keep_step(Trainer *t, Err *err) {
    char last[PATH_SIZE], name[64], path[PATH_SIZE];
    snprintf(name, sizeof name, "step-%08" PRIu64 ".ckpt", t->state.step);
    if (!run_path(last, t, "last.ckpt", err) || !run_path(path, t, name, err)) return false;
    /* files are replaced, never changed, so both names can share one; without hard links it is
     * written again */
    unlink(path);
    if (link(last, path) != 0 && !save_full(t, path, err)) return false;
    checkpoint_prune(t->config.run_dir, t->config.checkpoint.keep);
    return true;
}
