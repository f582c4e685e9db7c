#include "finetune_setup.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "elementwise.h"
#include "finetune_internal.h"
#include "io.h"
#include "log.h"
#include "rng.h"
#include "same_model.h"
#include "threads.h"
#include "training.h"

/* ---- where the model comes from */

static bool open_init(Finetune *f, Err *err) {
    const char *path = f->config.finetune.init;
    if (!io_is_file(path))
        return err_set(err, ERR_FAILED,
                       "finetune.init = %s: %s: wanted a checkpoint of `linformer pretrain`, or "
                       "`none` to train from scratch",
                       path, io_is_dir(path) ? "a folder" : "no such file");
    if (!checkpoint_open(&f->init, path, err)) return err_context(err, "finetune.init");
    if (strcmp(f->init.kind, "classifier") == 0)
        return err_set(err, ERR_FAILED,
                       "finetune.init = %s: a classifier that was fine-tuned already (%zu classes, "
                       "%.40s, ...): wanted the checkpoint of a pretraining",
                       path, f->init.labels.count, f->init.labels.names[0]);
    f->init_hash = io_hash(f->init.map.data, f->init.map.size);
    return tokenizer_load_bytes(&f->tokenizer, f->init.tokenizer.data, f->init.tokenizer.size, path,
                                err);
}

static bool take_model(Finetune *f, Err *err) {
    Config *config = &f->config;
    if (!open_init(f, err) || !same_model_check(config, &f->init.config, TAKEN_MODEL, err))
        return false;
    config_take_model(config, &f->init.config.model);
    if (!config_is_given(config, "train.micro_batch"))
        config->train.micro_batch =
            config_default_micro_batch(config->model.n, config->train.batch);
    config->tokenizer.type = f->init.config.tokenizer.type;
    config->tokenizer.model = config->finetune.init; /* which holds it */
    log_info("encoder: %s, step %" PRIu64 " of its pretraining; the classification head is new",
             config->finetune.init, f->init.state.step);
    return true;
}

static bool load_tokenizer(Finetune *f, Err *err) {
    const char *path = f->config.tokenizer.model;
    if (!io_is_file(path))
        return err_set(err, ERR_FAILED,
                       "tokenizer.model = %s: no such file, and finetune.init = none trains none: "
                       "make it with `linformer tokenizer` from a config that names text, and give "
                       "its path here",
                       path);
    log_info("from scratch (finetune.init = none), tokenizer %s", path);
    if (!tokenizer_load(&f->tokenizer, path, err)) return false;
    f->config.tokenizer.type = tokenizer_type(f->tokenizer);
    return true;
}

static bool open_model(Finetune *f, Err *err) {
    bool ok =
        strcmp(f->config.finetune.init, "none") == 0 ? load_tokenizer(f, err) : take_model(f, err);
    if (ok) config_set_vocab(&f->config, tokenizer_vocab_size(f->tokenizer));
    return ok;
}

/* ---- memory */

static bool allocate(Finetune *f, Err *err) {
    size_t size = 0;
    f->of_seed = f->config;
    f->rows = calloc(f->config.train.batch, sizeof *f->rows);
    if (size_mul(f->valid.count, f->labels.count, &size))
        f->log_probs = calloc(size, sizeof *f->log_probs);
    if (!f->rows || !f->log_probs)
        return err_set(err, ERR_FAILED, "no memory for the predictions of %zu rows",
                       f->valid.count);
    return class_trainer_create(&f->trainer, &f->of_seed, err);
}

bool finetune_open(Finetune *out, const Config *config, Err *err) {
    *out = (Finetune){.config = *config};
    bool ok = config_check_task(config, err) && threads_start(config->train.threads, err) &&
              open_model(out, err) && finetune_read_data(out, err);
    out->config.model.classes = out->labels.count;
    ok = ok && allocate(out, err);
    if (ok) training_log_model(&out->config.model, &out->trainer.table);
    if (!ok) finetune_close(out);
    return ok;
}

void finetune_close(Finetune *f) {
    class_trainer_destroy(&f->trainer);
    free(f->rows);
    free(f->log_probs);
    task_data_free(&f->train);
    task_data_free(&f->valid);
    label_set_free(&f->labels);
    tokenizer_destroy(f->tokenizer);
    checkpoint_close(&f->init);
    *f = (Finetune){0};
}

/* ---- seeds */

bool finetune_begin_seed(Finetune *f, uint64_t seed, Err *err) {
    TrainBlocks *blocks = &f->trainer.blocks;
    f->of_seed = f->config;
    f->of_seed.train.seed = seed;
    f->of_seed.finetune.seeds = 1;
    params_init(blocks->weights.block, &f->trainer.table, &f->trainer.config->model, seed);
    vec_zero(blocks->adam_m, f->trainer.table.block_reals);
    if (blocks->adam_v) vec_zero(blocks->adam_v, f->trainer.table.block_reals);
    return !f->init.map.data ||
           checkpoint_read_encoder(&f->init, &f->trainer.table, blocks->weights.block, err);
}

void finetune_order(size_t *rows, const Finetune *f, uint64_t first, size_t count) {
    uint64_t S = f->train.count;
    for (size_t i = 0; i < count; i++) {
        uint64_t order = rng_key(f->of_seed.train.seed, RNG_SHUFFLE, (first + i) / S, 0);
        rows[i] = (size_t)rng_permute(order, (first + i) % S, S);
    }
}
