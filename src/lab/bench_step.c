#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "bench_measure.h"
#include "bench_model.h"
#include "clock.h"
#include "plan.h"
#include "threads.h"

enum { STEPS_DEFAULT = 10, WARMUP_DEFAULT = 3 };

static const double PEAK_SECONDS = 1;

/* Of the arrays that show the peak of memory: more than last-level caches hold. */
enum { MEMORY_BYTES = 512 << 20 };

/* Steps until the buffers are warm, then `steps` timed ones. */
static bool time_steps(BenchStep *out, BenchModel *b, size_t warmup, size_t steps, Err *err) {
    double *times = malloc(steps * sizeof *times);
    if (!times) return err_set(err, ERR_FAILED, "out of memory for %zu times", steps);
    double begin = clock_now_s(), cpu = bench_cpu_time();
    size_t faults = 0;
    b->acts.profile = &out->profile;
    for (size_t s = 0; s < warmup + steps; s++) {
        double start = clock_now_s();
        if (s == warmup) {
            profile_clear(&out->profile);
            faults = bench_page_faults();
        }
        profile_start(&out->profile);
        double loss = bench_model_step(b, s + 1);
        if (s >= warmup) times[s - warmup] = clock_now_s() - start;
        if (s == 0) out->loss_first = loss;
        out->loss_last = loss;
    }
    out->cpu_share = (bench_cpu_time() - cpu) / (clock_now_s() - begin) / (double)bench_threads();
    out->page_faults = bench_page_faults() - faults;
    out->step_s = bench_median(times, steps);
    out->step_min_s = times[0]; /* sorted by now */
    out->step_max_s = times[steps - 1];
    free(times);
    if (isfinite(out->loss_last)) return true;
    return err_set(err, ERR_NONFINITE, "the loss is %g after %zu steps; lower optimizer.lr",
                   out->loss_last, warmup + steps);
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

    BenchModel model;
    double before, after;
    size_t peak_size = options->peak_size ? options->peak_size : BENCH_PEAK_SIZE;
    double peak_seconds = peak_size < BENCH_PEAK_SIZE ? 0 : PEAK_SECONDS;
    size_t memory_bytes = peak_size < BENCH_PEAK_SIZE ? 1 << 20 : MEMORY_BYTES;
    /* the batch comes first: it is small, and may turn out useless */
    bool ok = bench_batch_create(&model, &sized, out->sequences, err) &&
              bench_gemm_peak(&before, peak_size, peak_seconds, err);
    out->start_rss = bench_resident();
    bench_reset_peak_rss(); /* else the benchmark's own matrices count */
    ok = ok && bench_model_create(&model, ACTS_TRAINING, err) &&
         time_steps(out, &model, warmup, out->steps, err);
    out->peak_rss = threads_peak_rss();
    out->tokens = model.batch.total;
    out->masked = model.batch.masked;
    bench_model_destroy(&model);
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
