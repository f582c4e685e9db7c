#include "bench_lengths.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "log.h"
#include "real.h"
#include "threads.h"

static const size_t MIB = 1 << 20;

static Config config_of(size_t layers, size_t width, size_t heads, size_t ffn, size_t vocab) {
    Config config = {.train = {.batch = 4, .micro_batch = 2, .mask_rate = 0.15, .seed = 3}};
    config.model = (ModelConfig){.n = 8,
                                 .k = {1},
                                 .scope = SCOPE_LAYER,
                                 .layers = layers,
                                 .width = width,
                                 .heads = heads,
                                 .ffn = ffn,
                                 .vocab = vocab,
                                 .proj_init_std = 0.02,
                                 .dropout = 0.1,
                                 .attention_dropout = 0.1};
    config.optimizer = (OptimizerConfig){
        .lr = 1e-3, .position_lr = 1, .proj_lr = 1, .betas = {0.9, 0.98}, .eps = 1e-6, .clip = 1};
    return config;
}

/* Operations by hand, in multiply-adds a token of one layer of base width (C = 768, feed-forward
 * 4C):  full 12 C C + 2 n C;  Linformer 10 C C + 2 k C + 2 k C C / n + 2 k C. */
static void test_bound_of_inference(void) {
    Config config = config_of(3, 768, 12, 3072, 32000);
    const struct {
        size_t n, k;
        double full, linformer;
    } cases[] = {{512, 128, 7864320, 6586368},   /* 1.19 */
                 {4096, 256, 13369344, 6758400}, /* 1.98 */
                 {65536, 128, 107741184, 6293760}};
    for (size_t i = 0; i < 3; i++) {
        double n = (double)cases[i].n;
        double full = bench_cell_flops(&config, BENCH_BLOCKWISE, cases[i].n, 0, 5, false),
               own = bench_cell_flops(&config, BENCH_LINFORMER, cases[i].n, cases[i].k, 5, false);
        CHECK_CLOSE(full / (2 * 5 * 3 * n * cases[i].full), 1, 1e-12);
        CHECK_CLOSE(own / (2 * 5 * 3 * n * cases[i].linformer), 1, 1e-12);
        CHECK_CLOSE(bench_cell_flops(&config, BENCH_STORED, cases[i].n, 0, 5, false), full, 0);
    }
}

/* Three times the forward pass, and the head on 77 of 511 tokens: 77 (C C + C V). */
static void test_bound_of_training(void) {
    Config config = config_of(2, 768, 12, 3072, 32000);
    double head = 77.0 * (768.0 * 768 + 768.0 * 32000);
    CHECK_CLOSE(bench_cell_flops(&config, BENCH_BLOCKWISE, 512, 0, 7, true) /
                    (2 * 7 * 3 * (2 * 512 * 7864320.0 + head)),
                1, 1e-12);
    CHECK_CLOSE(bench_cell_flops(&config, BENCH_LINFORMER, 512, 128, 7, true) /
                    (2 * 7 * 3 * (2 * 512 * 6586368.0 + head)),
                1, 1e-12);
}

/* The largest batch fits and one sequence more does not; stored probabilities cost what they
 * are. */
/* What storing P takes beside computing it block by block; an arena may leave a gap behind each
 * block of memory. */
static void check_stored_bytes(const Config *config, bool training, size_t wanted) {
    size_t stored = bench_cell_bytes(config, BENCH_STORED, 256, 0, 7, training);
    size_t blockwise = bench_cell_bytes(config, BENCH_BLOCKWISE, 256, 0, 7, training);
    CHECK_CLOSE((double)stored - (double)blockwise, (double)wanted, 256);
}

static void test_largest_batch(void) {
    Config config = config_of(2, 48, 3, 96, 300);
    threads_set(2);
    for (int side = 0; side < 3; side++) {
        for (int training = 0; training < 2; training++) {
            size_t k = side == BENCH_LINFORMER ? 16 : 0;
            size_t most =
                bench_largest_batch(&config, (BenchSide)side, 256, k, training, 100 * MIB);
            CHECK(most > 1);
            CHECK(bench_cell_bytes(&config, (BenchSide)side, 256, k, most, training) <= 100 * MIB);
            CHECK(bench_cell_bytes(&config, (BenchSide)side, 256, k, most + 1, training) >
                  100 * MIB);
            CHECK_INT(bench_largest_batch(&config, (BenchSide)side, 256, k, training, 1000), 0);
        }
    }
    size_t square = 256 * 256 * sizeof(real);
    check_stored_bytes(&config, false, 7 * 3 * square);
    check_stored_bytes(&config, true, 2 * 7 * 3 * square + 2 * square);
}

typedef struct Reports {
    size_t calls, cells;
    FILE *csv;
} Reports;

static void report(void *context, const BenchCell *cells, size_t count) {
    Reports *r = context;
    bench_lengths_write_csv(r->csv, cells, count, false, r->calls == 0);
    r->calls++;
    r->cells += count;
}

static size_t count_commas(const char *line) {
    size_t count = 0;
    for (; *line; line++) count += *line == ',';
    return count;
}

static void check_csv(FILE *file, size_t lines) {
    char line[1024];
    size_t count = 0, commas = 0;
    rewind(file);
    for (; fgets(line, sizeof line, file); count++) {
        if (count == 0) commas = count_commas(line);
        CHECK_INT(count_commas(line), commas);
    }
    CHECK_INT(count, lines);
    CHECK(commas > 10);
}

/* What a turn adds to the process is what was predicted; in sanitizer builds freed memory stays. */
static void check_peak(const BenchCell *cell) {
#ifndef __SANITIZE_ADDRESS__
    double ratio = (double)cell->peak_bytes / (double)cell->predicted_bytes;
    CHECK_MSG(ratio > 0.85 && ratio < 1.15, "%s n=%zu k=%zu: %zu bytes, predicted %zu",
              bench_side_name(cell->side), cell->n, cell->k, cell->peak_bytes,
              cell->predicted_bytes);
#else
    (void)cell;
#endif
}

/* Two lengths; at the second the stored probabilities do not fit. */
static void check_run(bool training) {
    Config config = config_of(2, 48, 3, 96, 300);
    const size_t n[] = {128, 512}, k[] = {16, 64, 200};
    threads_set(1);
    log_quiet(true);
    BenchLengthsOptions options = {.training = training,
                                   .n = n,
                                   .n_count = 2,
                                   .k = k,
                                   .k_count = 3,
                                   .tokens = 1100,
                                   .rounds = 3,
                                   .seconds = 0.01,
                                   .memory = 64 * MIB};
    options.available = bench_cell_bytes(&config, BENCH_STORED, 512, 0, 2, training) - 1;
    BenchLengths all;
    Err err = {0};
    Reports reports = {.csv = tmpfile()};
    REQUIRE(reports.csv);
    if (!CHECK_MSG(bench_lengths(&all, &config, &options, report, &reports, &err), "%s", err.msg))
        return;
    CHECK_INT(reports.calls, 2);
    CHECK_INT(reports.cells, 4 + 5);
    CHECK_INT(all.count, 4 + 5);
    check_csv(reports.csv, 1 + 9);
    for (size_t i = 0; i < all.count; i++) {
        const BenchCell *c = &all.cells[i];
        CHECK_INT(c->n, i < 4 ? 128 : 512);
        CHECK_INT(c->sequences, i < 4 ? 8 : 2);
        CHECK_INT(c->fits, i != 4);
        CHECK_INT(c->rounds, i == 4 ? 0 : 2); /* no time for a third */
        CHECK(c->fits == (c->seconds > 0) && c->fits == (c->peak_bytes > 0));
        CHECK(c->fits == (c->speedup[BENCH_BLOCKWISE] > 0));
        CHECK((i < 4) == (c->speedup[BENCH_STORED] > 0));
        CHECK(c->speedup_low[BENCH_BLOCKWISE] <= c->speedup[BENCH_BLOCKWISE]);
        CHECK(c->speedup_high[BENCH_BLOCKWISE] >= c->speedup[BENCH_BLOCKWISE]);
        if (!c->fits) continue;
        check_peak(c);
        const BenchCell *base = &all.cells[i < 4 ? 1 : 5];
        /* a quotient of sums lies between the quotients of their terms */
        double quotient = base->seconds / c->seconds;
        CHECK(quotient >= c->speedup_low[BENCH_BLOCKWISE] * (1 - 1e-9));
        CHECK(quotient <= c->speedup_high[BENCH_BLOCKWISE] * (1 + 1e-9));
    }
    CHECK_CLOSE(all.cells[1].speedup[BENCH_BLOCKWISE], 1, 0);
    CHECK_CLOSE(all.cells[1].bound, 1, 0);
    CHECK_INT(all.cells[8].k, 200);
    CHECK(all.cells[5].side == BENCH_BLOCKWISE && all.cells[6].side == BENCH_LINFORMER);
    CHECK(all.estimate_s > 0);
    fclose(reports.csv);
    bench_lengths_free(&all);
}

static void test_inference(void) {
    check_run(false);
}

static void test_train(void) {
    check_run(true);
}

static void test_refusals(void) {
    Config config = config_of(1, 12, 3, 24, 300);
    const size_t n[] = {16, 32}, k[] = {17};
    BenchLengthsOptions options = {.n = n,
                                   .n_count = 2,
                                   .k = k,
                                   .k_count = 1,
                                   .tokens = 16,
                                   .rounds = 1,
                                   .seconds = 1,
                                   .memory = MIB};
    BenchLengths all;
    Err err = {0};
    CHECK(!bench_lengths(&all, &config, &options, report, NULL, &err));
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_STR_CONTAINS(err.msg, "n = 16: no k is as small; the smallest is 17");
    bench_lengths_free(&all);
    options.k_count = 0;
    CHECK(!bench_lengths(&all, &config, &options, report, NULL, &err));
    CHECK_STR_CONTAINS(err.msg, "at least one n and one k");
    bench_lengths_free(&all);
}

const Test tests_bench_lengths[] = {
    {"bound_of_inference", test_bound_of_inference, 0},
    {"bound_of_training", test_bound_of_training, 0},
    {"largest_batch", test_largest_batch, 0},
    {"inference", test_inference, 0},
    {"train", test_train, 0},
    {"refusals", test_refusals, 0},
    {0},
};
