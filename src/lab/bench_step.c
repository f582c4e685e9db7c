#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "activations.h"
#include "batcher.h"
#include "bench.h"
#include "bench_measure.h"
#include "clock.h"
#include "elementwise.h"
#include "encoder.h"
#include "mlm_head.h"
#include "mlm_mask.h"
#include "optimizer.h"
#include "params.h"
#include "plan.h"
#include "rng.h"
#include "threads.h"
#include "tokenizer.h"
#include "train_blocks.h"

enum { STEPS_DEFAULT = 10, WARMUP_DEFAULT = 2 };

static const double PEAK_SECONDS = 1;

/* Of the arrays that show the peak of memory: more than last-level caches hold. */
enum { MEMORY_BYTES = 512 << 20 };

/* A model in training, and one batch of random ids. */
typedef struct Bench {
    const Config *config;
    ParamTable table;
    TrainBlocks blocks;
    Activations acts;
    Batch batch;
} Bench;

/* Full-length sequences: `<s>`, then ids drawn uniformly, masked as in training. */
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

/* The batch comes first: it is small, and may turn out useless. */
static bool create_batch(Bench *b, size_t sequences, Err *err) {
    if (!batch_create(&b->batch, sequences, b->config->model.n, err)) return false;
    fill_batch(&b->batch, b->config, sequences);
    if (b->batch.masked > 0) return true;
    return err_set(err, ERR_CONFIG,
                   "train.mask_rate = %g masks none of %zu tokens: nothing to train on",
                   b->config->train.mask_rate, b->batch.total);
}

static bool create_model(Bench *b, Err *err) {
    const ModelConfig *model = &b->config->model;
    if (!param_table_create(&b->table, model, err) ||
        !train_blocks_create(&b->blocks, &b->table, model, &b->config->optimizer, err))
        return false;
    params_init(b->blocks.weights.block, &b->table, &b->config->model, b->config->train.seed);
    return activations_create(&b->acts, model, b->batch.B, b->batch.total, ACTS_TRAINING, err);
}

static void bench_destroy(Bench *b) {
    batch_destroy(&b->batch);
    activations_destroy(&b->acts);
    train_blocks_destroy(&b->blocks);
    param_table_destroy(&b->table);
}

/* One update; the loss before it. */
static double run_step(Bench *b, uint64_t step) {
    const ModelConfig *model = &b->config->model;
    const OptimizerConfig *optimizer = &b->config->optimizer;
    double masked = (double)b->batch.masked;
    vec_zero(b->blocks.grads.block, b->table.block_reals);
    double block_bytes = (double)(b->table.block_reals * sizeof(real));
    profile_lap(b->acts.profile, PROFILE_OPTIMIZER, 0, block_bytes);
    encoder_forward(&b->acts, &b->blocks.weights, model, &b->batch);
    double loss = mlm_head_loss_backward(&b->acts, &b->blocks.grads, &b->blocks.weights, model,
                                         &b->batch, 1 / masked) /
                  masked;
    encoder_backward(&b->acts, &b->blocks.grads, &b->blocks.weights, model, &b->batch);
    double norm = optimizer_grad_norm(b->blocks.grads.block, &b->table);
    optimizer_step(b->blocks.weights.block, b->blocks.adam_m, b->blocks.adam_v,
                   b->blocks.grads.block, &b->table, optimizer, optimizer->lr,
                   optimizer_clip_scale(norm, optimizer->clip), step);
    profile_lap(b->acts.profile, PROFILE_OPTIMIZER, 0,
                optimizer_passes(optimizer) * block_bytes);
    return loss;
}

/* Steps until the buffers are warm, then `steps` timed ones. */
static bool time_steps(BenchStep *out, Bench *b, size_t warmup, size_t steps, Err *err) {
    double *times = malloc(steps * sizeof *times);
    if (!times) return err_set(err, ERR_FAILED, "out of memory for %zu times", steps);
    double begin = clock_now_s(), cpu = bench_cpu_time();
    b->acts.profile = &out->profile;
    for (size_t s = 0; s < warmup + steps; s++) {
        double start = clock_now_s();
        if (s == warmup) profile_clear(&out->profile);
        profile_start(&out->profile);
        double loss = run_step(b, s + 1);
        if (s >= warmup) times[s - warmup] = clock_now_s() - start;
        if (s == 0) out->loss_first = loss;
        out->loss_last = loss;
    }
    out->cpu_share = (bench_cpu_time() - cpu) / (clock_now_s() - begin) / (double)bench_threads();
    out->step_s = bench_median(times, steps);
    out->step_min_s = times[0]; /* sorted by now */
    out->step_max_s = times[steps - 1];
    free(times);
    if (isfinite(out->loss_last)) return true;
    return err_set(err, ERR_NONFINITE, "the loss is %g after %zu steps; lower optimizer.lr",
                   out->loss_last, warmup + steps);
}

/* The peak so far is forgotten, where the system allows: else the benchmark's own matrices
 * count. */
static void reset_peak_rss(void) {
    FILE *file = fopen("/proc/self/clear_refs", "w");
    if (!file) return;
    fputs("5", file);
    fclose(file);
}

static bool count_operations(BenchStep *out, const Config *config, Err *err) {
    size_t *lengths = malloc(out->sequences * sizeof *lengths);
    if (!lengths) return err_set(err, ERR_FAILED, "out of memory for %zu lengths", out->sequences);
    for (size_t b = 0; b < out->sequences; b++) lengths[b] = config->model.n;
    out->gflops =
        plan_step_flops(&config->model, lengths, out->sequences, out->masked) / out->step_s / 1e9;
    free(lengths);
    return true;
}

bool bench_step(BenchStep *out, const Config *config, const BenchStepOptions *options, Err *err) {
    Config sized = *config; /* shares its strings */
    if (options->sequences) {
        sized.train.micro_batch = options->sequences;
        sized.train.memory = 0;
    }
    sized.train.short_rate = 0; /* whole sequences, and memory for no more */
    Plan plan;
    if (!plan_compute(&plan, &sized, err)) return false;
    *out = (BenchStep){.sequences = plan.micro_batch, .predicted_bytes = plan.memory_bytes};
    out->steps = options->steps ? options->steps : STEPS_DEFAULT;
    size_t warmup = options->warmup ? options->warmup : WARMUP_DEFAULT;

    Bench bench = {.config = &sized};
    double before, after;
    size_t peak_size = options->peak_size ? options->peak_size : BENCH_PEAK_SIZE;
    double peak_seconds = peak_size < BENCH_PEAK_SIZE ? 0 : PEAK_SECONDS;
    size_t memory_bytes = peak_size < BENCH_PEAK_SIZE ? 1 << 20 : MEMORY_BYTES;
    bool ok = create_batch(&bench, out->sequences, err) &&
              bench_gemm_peak(&before, peak_size, peak_seconds, err);
    out->start_rss = bench_resident();
    reset_peak_rss();
    ok = ok && create_model(&bench, err) && time_steps(out, &bench, warmup, out->steps, err);
    out->peak_rss = threads_peak_rss();
    out->tokens = bench.batch.total;
    out->masked = bench.batch.masked;
    bench_destroy(&bench);
    if (!ok || !bench_gemm_peak(&after, peak_size, peak_seconds, err) ||
        !count_operations(out, &sized, err) ||
        (options->profile &&
         !bench_memory_peak(&out->memory_peak, memory_bytes, peak_seconds, err)))
        return false;
    out->peak_gflops = (before + after) / 2;
    out->fraction_of_peak = out->gflops / out->peak_gflops;
    out->tokens_per_s = (double)out->tokens / out->step_s;
    return true;
}
