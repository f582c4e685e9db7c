#include "bench_model.h"

#include <stdio.h>

#include "batcher.h"
#include "elementwise.h"
#include "encoder.h"
#include "mlm_head.h"
#include "mlm_mask.h"
#include "optimizer.h"
#include "rng.h"
#include "tokenizer.h"

static void fill_batch(Batch *batch, const Config *config, size_t sequences) {
    size_t n = config->model.n, vocab = config->model.vocab;
    *batch = (Batch){.B = sequences,
                     .total = sequences * n,
                     .start = batch->start,
                     .ids = batch->ids,
                     .seq_key = batch->seq_key,
                     .masked_rows = batch->masked_rows,
                     .labels = batch->labels};
    batch->start[0] = 0;
    for (size_t b = 0; b < sequences; b++) {
        uint64_t key = rng_key(config->train.seed, RNG_TEST, b, 0);
        uint32_t *ids = batch->ids + b * n, *rows = batch->masked_rows + batch->masked;
        ids[0] = TOKEN_BOS;
        for (size_t t = 1; t < n; t++)
            ids[t] = (uint32_t)(TOKEN_SPECIALS + rng_below(key, t, vocab - TOKEN_SPECIALS));
        batch->start[b + 1] = (b + 1) * n;
        batch->seq_key[b] = key;
        size_t count = mlm_mask(ids, rows, batch->labels + batch->masked, n, vocab,
                                config->train.mask_rate, key);
        for (size_t i = 0; i < count; i++) rows[i] += (uint32_t)(b * n);
        batch->masked += count;
    }
}

bool bench_batch_create(BenchModel *model, const Config *config, size_t sequences, Err *err) {
    *model = (BenchModel){.config = config};
    if (!batch_create(&model->batch, sequences, config->model.n, err)) return false;
    fill_batch(&model->batch, config, sequences);
    return true;
}

static bool create_blocks(BenchModel *model, ActMode mode, Err *err) {
    const Config *config = model->config;
    TrainBlocks *blocks = &model->blocks;
    if (mode == ACTS_TRAINING)
        return train_blocks_create(blocks, &model->table, &config->model, &config->optimizer, err);
    real *weights = NULL;
    *blocks = (TrainBlocks){.table = &model->table};
    if (!param_blocks_create(&weights, &blocks->arena, &model->table, 1, err))
        return err_context(err, "parameters");
    params_view(&blocks->weights, &model->table, &config->model, weights);
    return true;
}

bool bench_model_create(BenchModel *model, ActMode mode, Err *err) {
    const Config *config = model->config;
    if (mode == ACTS_TRAINING && model->batch.masked == 0)
        return err_set(err, ERR_CONFIG,
                       "train.mask_rate = %g masks none of %zu tokens: nothing to train on",
                       config->train.mask_rate, model->batch.total);
    if (!param_table_create(&model->table, &config->model, err) || !create_blocks(model, mode, err))
        return false;
    params_init(model->blocks.weights.block, &model->table, &config->model, config->train.seed);
    return activations_create(&model->acts, &config->model, model->batch.B, model->batch.total,
                              mode, err);
}

void bench_model_destroy(BenchModel *model) {
    batch_destroy(&model->batch);
    activations_destroy(&model->acts);
    train_blocks_destroy(&model->blocks);
    param_table_destroy(&model->table);
    *model = (BenchModel){0};
}

void bench_model_touch(BenchModel *model) {
    arena_touch(&model->blocks.arena);
    arena_touch(&model->acts.arena);
}

double bench_model_step(BenchModel *model, uint64_t step) {
    const ModelConfig *config = &model->config->model;
    const OptimizerConfig *optimizer = &model->config->optimizer;
    Activations *acts = &model->acts;
    TrainBlocks *blocks = &model->blocks;
    double masked = (double)model->batch.masked;
    vec_zero(blocks->grads.block, model->table.block_reals);
    double block_bytes = (double)(model->table.block_reals * sizeof(real));
    profile_lap(acts->profile, PROFILE_OPTIMIZER, 0, block_bytes);
    encoder_forward(acts, &blocks->weights, config, &model->batch);
    double loss = mlm_head_loss_backward(acts, &blocks->grads, &blocks->weights, config,
                                         &model->batch, 1 / masked) /
                  masked;
    encoder_backward(acts, &blocks->grads, &blocks->weights, config, &model->batch);
    double norm = optimizer_grad_norm(blocks->grads.block, &model->table);
    optimizer_step(blocks->weights.block, blocks->adam_m, blocks->adam_v, blocks->grads.block,
                   &model->table, optimizer, optimizer->lr,
                   optimizer_clip_scale(norm, optimizer->clip), step);
    profile_lap(acts->profile, PROFILE_OPTIMIZER, 0, optimizer_passes(optimizer) * block_bytes);
    return loss;
}

bool bench_reset_peak_rss(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return false;
    bool done = fputs("5", file) >= 0;
    return fclose(file) == 0 && done;
}
