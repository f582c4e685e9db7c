#include "bench_lengths.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "activations.h"
#include "batcher.h"
#include "bench.h"
#include "bench_measure.h"
#include "bench_turn.h"
#include "clock.h"
#include "log.h"
#include "params.h"
#include "plan.h"
#include "stored_attention.h"
#include "system_memory.h"
#include "train_memory.h"

/* For the estimate: shares of the matrix-product peak that passes are likely to reach.  Stored
 * probabilities are read and written several times. */
static const double USUAL_SHARE[] = {
    [BENCH_STORED] = 0.3, [BENCH_BLOCKWISE] = 0.6, [BENCH_LINFORMER] = 0.7};

/* Of the memory left, for what is not predicted: scratch of the libraries. */
static const double USED_MEMORY = 0.95;

static const double FILL_BYTES_PER_S = 4e9;

static const double PEAK_SECONDS = 0.5, TURN_SECONDS = 0.5;

const char *bench_side_name(BenchSide side) {
    static const char *const names[] = {"stored", "blockwise", "linformer"};
    return names[side];
}

/* ---- predictions */

/* Weights, activations and batch; in training also gradients and moments. */
static bool model_bytes(size_t *out, const Config *config, size_t sequences, bool training) {
    ParamTable table;
    Err ignored = {0}; /* it can only be that sizes overflow */
    if (!param_table_create(&table, &config->model, &ignored)) return false;
    bool ok;
    size_t tokens = 0, acts = 0, batch = 0;
    if (training) {
        TrainMemory memory = {0};
        ok = train_memory(&memory, config, &table, sequences, &ignored);
        *out = memory.total;
    } else {
        ok = size_mul(sequences, config->model.n, &tokens) &&
             batch_bytes(&batch, sequences, config->model.n) &&
             activations_bytes(&acts, &config->model, sequences, tokens, ACTS_INFERENCE, &ignored);
        ok = ok && !__builtin_add_overflow(table.block_reals * sizeof(real), batch, out) &&
             !__builtin_add_overflow(*out, acts, out);
    }
    param_table_destroy(&table);
    return ok;
}

size_t bench_cell_bytes(const Config *config, BenchSide side, size_t n, size_t k, size_t sequences,
                        bool training) {
    const Config own = bench_side_config(config, side, n, k, sequences, training);
    size_t bytes, stored = 0;
    if (!model_bytes(&bytes, &own, sequences, training)) return SIZE_MAX;
    if (side == BENCH_STORED && !stored_attention_bytes(&stored, &own.model, sequences,
                                                        training ? ACTS_TRAINING : ACTS_INFERENCE))
        return SIZE_MAX;
    return bytes > SIZE_MAX - stored ? SIZE_MAX : bytes + stored;
}

size_t bench_largest_batch(const Config *config, BenchSide side, size_t n, size_t k, bool training,
                           size_t memory) {
    size_t low = 0, high = 1;
    while (high < (size_t)1 << 40 && bench_cell_bytes(config, side, n, k, high, training) <= memory)
        low = high, high *= 2;
    while (high - low > 1) { /* low fits, high does not */
        size_t middle = low + (high - low) / 2;
        if (bench_cell_bytes(config, side, n, k, middle, training) <= memory)
            low = middle;
        else
            high = middle;
    }
    return low;
}

double bench_cell_flops(const Config *config, BenchSide side, size_t n, size_t k, size_t sequences,
                        bool training) {
    Config own = bench_side_config(config, side, n, k, sequences, training);
    own.model.classes = 0; /* nor is there a product of another head */
    /* all sequences are alike, and so is the order of the projections for each of them */
    double masked = training ? config->train.mask_rate * (double)(n - 1) : 0;
    double one = training ? plan_step_flops(&own.model, &n, 1, (size_t)(masked + 0.5))
                          : plan_forward_flops(&own.model, &n, 1, 0);
    return one * (double)sequences;
}

static BenchCell predict_cell(const Config *config, const BenchLengthsOptions *options,
                              size_t available, BenchSide side, size_t n, size_t k) {
    bool training = options->training;
    BenchCell cell = {.side = side, .n = n, .k = k};
    cell.sequences = options->tokens > n ? options->tokens / n : 1;
    cell.predicted_bytes = bench_cell_bytes(config, side, n, k, cell.sequences, training);
    cell.fits = cell.predicted_bytes <= available;
    cell.largest_batch = bench_largest_batch(config, side, n, k, training, options->memory);
    cell.flops = bench_cell_flops(config, side, n, k, cell.sequences, training);
    cell.bound =
        bench_cell_flops(config, BENCH_BLOCKWISE, n, k, cell.sequences, training) / cell.flops;
    return cell;
}

/* Cells of one n; returns their number. */
static size_t predict_row(BenchCell *cells, const Config *config,
                          const BenchLengthsOptions *options, size_t available, size_t n) {
    size_t count = 0;
    cells[count++] = predict_cell(config, options, available, BENCH_STORED, n, 0);
    cells[count++] = predict_cell(config, options, available, BENCH_BLOCKWISE, n, 0);
    for (size_t i = 0; i < options->k_count && options->k[i] <= n; i++)
        cells[count++] =
            predict_cell(config, options, available, BENCH_LINFORMER, n, options->k[i]);
    return count;
}

/* Seconds of one pass at the usual share of the peak. */
static double estimate_pass(const BenchCell *cell, double peak_gflops) {
    return cell->flops / (USUAL_SHARE[cell->side] * peak_gflops * 1e9);
}

/* Of all turns of a row.  A short pass runs three times or more, and making a contender takes
 * about as long as it costs to fill its memory. */
static double estimate_row(const BenchCell *cells, size_t count, const BenchLengthsOptions *options,
                           double peak_gflops) {
    double round = 0;
    for (size_t i = 0; i < count; i++) {
        double pass = estimate_pass(&cells[i], peak_gflops);
        double making = (double)cells[i].predicted_bytes / FILL_BYTES_PER_S;
        if (cells[i].fits) round += making + (pass < 4 ? 3 * pass + TURN_SECONDS : pass);
    }
    double all = (double)options->rounds * round, enough = options->seconds + round;
    if (enough < 2 * round) enough = 2 * round;
    return all < enough ? all : enough;
}

/* ---- measurements */

/* Times of the rounds, (count,rounds). */
typedef struct Rounds {
    double *seconds;
    size_t most, done;
} Rounds;

static void take_speedup(BenchCell *cell, BenchSide base, const double *base_s, const double *own_s,
                         double *ratios, size_t rounds) {
    for (size_t r = 0; r < rounds; r++) ratios[r] = base_s[r] / own_s[r];
    cell->speedup[base] = bench_median(ratios, rounds); /* sorts */
    cell->speedup_low[base] = ratios[0];
    cell->speedup_high[base] = ratios[rounds - 1];
}

/* Medians over the rounds. */
static bool summarize(BenchCell *cells, size_t count, const Rounds *rounds, Err *err) {
    double *sorted = malloc(rounds->most * sizeof *sorted);
    if (!sorted) return err_set(err, ERR_FAILED, "out of memory for %zu times", rounds->most);
    for (size_t i = 0; i < count; i++) {
        const double *own = rounds->seconds + i * rounds->most;
        if (!cells[i].fits) continue;
        cells[i].rounds = rounds->done;
        for (size_t base = 0; base < BENCH_BASELINES; base++) {
            if (cells[base].fits)
                take_speedup(&cells[i], (BenchSide)base, rounds->seconds + base * rounds->most, own,
                             sorted, rounds->done);
        }
        for (size_t r = 0; r < rounds->done; r++) sorted[r] = own[r];
        cells[i].seconds = bench_median(sorted, rounds->done);
    }
    free(sorted);
    return true;
}

static void show_turn(const BenchCell *cell, size_t round, const BenchTurn *turn) {
    char k[32] = "";
    if (cell->k) snprintf(k, sizeof k, " k=%zu", cell->k);
    log_info("n=%zu round %zu: %s%s: %.3f s, %.0f MiB", cell->n, round + 1,
             bench_side_name(cell->side), k, turn->seconds, (double)turn->peak_bytes / (1 << 20));
}

/* Every contender that fits, once; in odd rounds from the last to the first. */
static bool run_round(BenchCell *cells, size_t count, Rounds *rounds, const Config *config,
                      const BenchLengthsOptions *options, Err *err) {
    /* passes of small models are repeated less where little time is given */
    double about_s = options->seconds / (double)(2 * count * options->rounds);
    if (about_s > TURN_SECONDS) about_s = TURN_SECONDS;
    for (size_t turn = 0; turn < count; turn++) {
        size_t i = rounds->done % 2 ? count - 1 - turn : turn;
        BenchTurn result;
        if (!cells[i].fits) continue;
        if (!bench_turn(&result, config, &cells[i], options->training, about_s, err)) return false;
        rounds->seconds[i * rounds->most + rounds->done] = result.seconds;
        /* the least: what libraries allocate once and keep is in the first turn alone */
        if (rounds->done == 0 || result.peak_bytes < cells[i].peak_bytes)
            cells[i].peak_bytes = result.peak_bytes;
        show_turn(&cells[i], rounds->done, &result);
    }
    rounds->done++;
    return true;
}

static bool measure_row(BenchCell *cells, size_t count, const Config *config,
                        const BenchLengthsOptions *options, Err *err) {
    Rounds rounds = {.most = options->rounds};
    rounds.seconds = calloc(count * rounds.most, sizeof *rounds.seconds);
    if (!rounds.seconds)
        return err_set(err, ERR_FAILED, "out of memory for the times of %zu rounds", rounds.most);
    double start = clock_now_s();
    bool ok = true;
    while (ok && rounds.done < rounds.most &&
           (rounds.done < 2 || clock_now_s() - start < options->seconds))
        ok = run_round(cells, count, &rounds, config, options, err);
    ok = ok && summarize(cells, count, &rounds, err);
    free(rounds.seconds);
    return ok;
}

/* ---- all of it */

static bool check_options(const BenchLengthsOptions *options, Err *err) {
    if (options->n_count == 0 || options->k_count == 0)
        return err_set(err, ERR_CONFIG, "at least one n and one k are needed");
    if (options->k[0] > options->n[0])
        return err_set(err, ERR_CONFIG,
                       "n = %zu: no k is as small; the smallest is %zu, and k is at most n",
                       options->n[0], options->k[0]);
    return true;
}

static void show_missing(const BenchLengths *lengths) {
    for (size_t i = 0; i < lengths->count; i++) {
        const BenchCell *cell = &lengths->cells[i];
        if (cell->fits) continue;
        log_info("n=%zu k=%zu %s: %.1f GiB needed, %.1f GiB there: not run", cell->n, cell->k,
                 bench_side_name(cell->side), (double)cell->predicted_bytes / (1 << 30),
                 (double)lengths->available / (1 << 30));
    }
}

static bool measure_all(BenchLengths *out, const Config *config, const BenchLengthsOptions *options,
                        BenchLengthsReport *report, void *context, Err *err) {
    double begin = clock_now_s(), cpu = bench_cpu_time();
    for (size_t at = 0, count; at < out->count; at += count) {
        BenchCell *cells = out->cells + at;
        for (count = 1; at + count < out->count && cells[count].n == cells->n; count++) {}
        if (!options->dry_run && !measure_row(cells, count, config, options, err)) return false;
        report(context, cells, count);
    }
    double waited = (clock_now_s() - begin) * (double)bench_threads();
    out->cpu_share = waited > 0 ? (bench_cpu_time() - cpu) / waited : 0;
    return true;
}

bool bench_lengths(BenchLengths *out, const Config *config, const BenchLengthsOptions *options,
                   BenchLengthsReport *report, void *context, Err *err) {
    *out = (BenchLengths){.available = options->available};
    if (!check_options(options, err)) return false;
    size_t left;
    if (!out->available)
        out->available =
            system_memory_available(&left) ? (size_t)(USED_MEMORY * (double)left) : SIZE_MAX;
    out->cells =
        calloc(options->n_count * (BENCH_BASELINES + options->k_count), sizeof *out->cells);
    if (!out->cells) return err_set(err, ERR_FAILED, "out of memory for the results");
    /* the peak is for the estimate alone: a small product will do */
    if (!bench_gemm_peak(&out->gemm_peak, BENCH_PEAK_SIZE / 2, PEAK_SECONDS, err)) return false;
    for (size_t i = 0; i < options->n_count; i++) {
        BenchCell *row = out->cells + out->count;
        size_t count = predict_row(row, config, options, out->available, options->n[i]);
        out->estimate_s += estimate_row(row, count, options, out->gemm_peak);
        out->count += count;
    }
    show_missing(out);
    log_info("about %.0f minutes at %.0f GFLOP/s for a large product", out->estimate_s / 60,
             out->gemm_peak);
    return measure_all(out, config, options, report, context, err);
}

void bench_lengths_free(BenchLengths *lengths) {
    free(lengths->cells);
    *lengths = (BenchLengths){0};
}
