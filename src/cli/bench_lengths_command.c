/* `bench inference` and `bench train`. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench_lengths.h"
#include "cli.h"
#include "threads.h"

enum { TOKENS = 16384, ROUNDS = 5 };

static const double SECONDS = 300;
static const size_t MEMORY = (size_t)16 << 30; /* of the paper's device */

static const char LENGTHS[] = "512,1024,2048,4096,8192,16384,32768,65536",
                  PROJECTED[] = "128,256,512,1024,2048";

/* Of base width, with few enough layers to end in reasonable time; longer models have the same
 * ratios, as each layer does the same work. */
static const char MODEL[] =
    "model: {n: 65536, k: 128, layers: 2, width: 768, heads: 12, ffn: 3072, sharing: headwise}\n"
    "tokenizer: {vocab_size: 32000}\n"
    "train: {steps: 100}\n"
    "data: {train: none.txt}\n";

/* "512,1024": ascending. */
static bool read_list(size_t *out, size_t *count, const char *name, const char *text, size_t low,
                      Err *err) {
    const char *at = text;
    for (*count = 0; *count < BENCH_LENGTHS_MAX;) {
        char *end;
        size_t digits = strspn(at, "0123456789");
        unsigned long long value = digits && digits < 8 ? strtoull(at, &end, 10) : 0;
        if (value < low || value > 1048576 || (at[digits] && at[digits] != ','))
            return err_set(err, ERR_CONFIG,
                           "%s %s: wanted whole numbers from %zu to 1048576 with commas between",
                           name, text, low);
        if (*count > 0 && value <= out[*count - 1])
            return err_set(err, ERR_CONFIG, "%s %s: wanted each number larger than the one before",
                           name, text);
        out[(*count)++] = (size_t)value;
        if (!at[digits]) return true;
        at += digits + 1;
    }
    return err_set(err, ERR_CONFIG, "%s %s: at most %d numbers", name, text, BENCH_LENGTHS_MAX);
}

static bool load_model(Config *out, const Args *args, Err *err) {
    *out = (Config){0};
    if (args->count < 2) {
        if (!config_from_yaml(out, MODEL, "the model of the benchmark", err)) return false;
        config_set_vocab(out, out->tokenizer.vocab_size);
    } else if (strchr(args->items[1], '=')) {
        return err_set(err, ERR_CONFIG,
                       "%s: an override needs a CONFIG before it: bench %s CONFIG %s",
                       args->items[1], args->items[0], args->items[1]);
    } else if (!load_config(out, args, 1, err) || !take_vocab(out, err)) {
        return false;
    }
    if (args->options.layers) out->model.layers = args->options.layers;
    return true;
}

/* ---- text */

static const char *side_title(const BenchCell *cell) {
    static char text[32];
    static const char *const baselines[] = {"full, stored", "full, block-wise"};
    if (cell->side != BENCH_LINFORMER) return baselines[cell->side];
    snprintf(text, sizeof text, "linformer k=%zu", cell->k);
    return text;
}

static void print_speedup(const BenchCell *cell, BenchSide base) {
    if (cell->speedup[base] > 0)
        printf(" %6.2f (%.2f-%.2f)", cell->speedup[base], cell->speedup_low[base],
               cell->speedup_high[base]);
    else
        printf(" %6s %11s", "-", "");
}

static void print_cell(const BenchCell *cell) {
    printf("%-17s", side_title(cell));
    if (cell->rounds > 0) {
        double tokens = (double)cell->sequences * (double)cell->n;
        printf(" %10.4g %10.4g %10s", cell->seconds, 1e6 * cell->seconds / tokens,
               show_bytes(cell->peak_bytes));
    } else {
        printf(" %10s %10s %10s", "-", "-", cell->fits ? "-" : "no room");
    }
    printf(" %10s %9s",
           cell->predicted_bytes == SIZE_MAX ? "too much" : show_bytes(cell->predicted_bytes),
           show_count(cell->largest_batch));
    print_speedup(cell, BENCH_STORED);
    print_speedup(cell, BENCH_BLOCKWISE);
    printf(" %6.2f\n", cell->bound);
}

static void print_row(const BenchCell *cells, size_t count, size_t memory) {
    size_t rounds = cells[count - 1].rounds ? cells[count - 1].rounds : cells[1].rounds;
    printf("n %s: %s sequence%s a batch, %s round%s\n", show_count(cells->n),
           show_count(cells->sequences), cells->sequences == 1 ? "" : "s",
           rounds ? show_count(rounds) : "no", rounds == 1 ? "" : "s");
    printf("%-17s %10s %10s %10s %10s %9s %-19s %-19s %6s\n", "", "s a batch", "us a token",
           "memory", "predicted", "largest", "   over stored", "   over block-wise", "bound");
    for (size_t i = 0; i < count; i++) print_cell(&cells[i]);
    printf("largest: sequences in a batch that fit into %s\n\n", show_bytes(memory));
    fflush(stdout);
}

/* ---- tables as the paper has them: a line an n, a column a k */

/* Text of a cell of one table; `base` is the baseline at its n. */
typedef void CellText(char *out, size_t size, const BenchCell *base, const BenchCell *cell);

static void time_text(char *out, size_t size, const BenchCell *base, const BenchCell *cell) {
    double speedup = cell->speedup[base->side];
    if (speedup > 0)
        snprintf(out, size, "%.2f (%.2f)", speedup, cell->bound);
    else
        snprintf(out, size, "- (%.2f)", cell->bound);
}

/* Measured, or "~" and what is predicted where a side was not run. */
static void memory_text(char *out, size_t size, const BenchCell *base, const BenchCell *cell) {
    bool measured = base->peak_bytes > 0 && cell->peak_bytes > 0;
    double ratio = measured ? (double)base->peak_bytes / (double)cell->peak_bytes
                            : (double)base->predicted_bytes / (double)cell->predicted_bytes;
    snprintf(out, size, "%s%.2f", measured ? "" : "~", ratio);
}

static void batch_text(char *out, size_t size, const BenchCell *base, const BenchCell *cell) {
    if (base->largest_batch > 0)
        snprintf(out, size, "%.2f", (double)cell->largest_batch / (double)base->largest_batch);
    else
        snprintf(out, size, "%zu : 0", cell->largest_batch);
}

static void print_table(const char *title, const BenchLengths *all, BenchSide base,
                        const BenchLengthsOptions *options, CellText *text) {
    printf("%s\n\n| n |", title);
    for (size_t i = 0; i < options->k_count; i++) printf(" k=%zu |", options->k[i]);
    printf("\n|---|");
    for (size_t i = 0; i < options->k_count; i++) printf("---|");
    for (size_t at = 0, count; at < all->count; at += count) {
        const BenchCell *row = all->cells + at;
        printf("\n| %s |", show_count(row->n));
        for (count = 1; at + count < all->count && row[count].n == row->n; count++) {
            char cell[64];
            if (row[count].side != BENCH_LINFORMER) continue;
            text(cell, sizeof cell, &row[base], &row[count]);
            printf(" %s |", cell);
        }
        for (size_t i = count - BENCH_BASELINES; i < options->k_count; i++) printf("  |");
    }
    printf("\n\n");
}

static void print_tables(const BenchLengths *all, const BenchLengthsOptions *options) {
    char title[128];
    print_table("Speed-up over full attention that stores its probabilities (bound by operations)",
                all, BENCH_STORED, options, time_text);
    print_table("Speed-up over block-wise full attention (bound by operations)", all,
                BENCH_BLOCKWISE, options, time_text);
    print_table("Memory of stored-probability attention over Linformer's (~: predicted)", all,
                BENCH_STORED, options, memory_text);
    print_table("Memory of block-wise attention over Linformer's (~: predicted)", all,
                BENCH_BLOCKWISE, options, memory_text);
    snprintf(title, sizeof title,
             "Largest batch in %s over that of stored-probability attention (predicted)",
             show_bytes(options->memory));
    print_table(title, all, BENCH_STORED, options, batch_text);
}

/* ---- JSON */

static void add_measured(cJSON *item, const char *name, double value) {
    if (value > 0)
        cJSON_AddNumberToObject(item, name, value);
    else
        cJSON_AddNullToObject(item, name);
}

static void add_cell(cJSON *list, const BenchCell *cell) {
    static const char *const names[BENCH_BASELINES][3] = {
        {"speedup_stored", "speedup_stored_low", "speedup_stored_high"},
        {"speedup_blockwise", "speedup_blockwise_low", "speedup_blockwise_high"}};
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToArray(list, item);
    cJSON_AddStringToObject(item, "side", bench_side_name(cell->side));
    cJSON_AddNumberToObject(item, "n", (double)cell->n);
    add_measured(item, "k", (double)cell->k);
    cJSON_AddNumberToObject(item, "sequences", (double)cell->sequences);
    cJSON_AddNumberToObject(item, "predicted_bytes", (double)cell->predicted_bytes);
    cJSON_AddBoolToObject(item, "fits", cell->fits);
    add_measured(item, "peak_bytes", (double)cell->peak_bytes);
    cJSON_AddNumberToObject(item, "largest_batch", (double)cell->largest_batch);
    cJSON_AddNumberToObject(item, "flops", cell->flops);
    cJSON_AddNumberToObject(item, "bound", cell->bound);
    cJSON_AddNumberToObject(item, "rounds", (double)cell->rounds);
    add_measured(item, "seconds", cell->seconds);
    for (size_t base = 0; base < BENCH_BASELINES; base++) {
        add_measured(item, names[base][0], cell->speedup[base]);
        add_measured(item, names[base][1], cell->speedup_low[base]);
        add_measured(item, names[base][2], cell->speedup_high[base]);
    }
}

static bool print_lengths_json(const BenchLengths *all, const Config *config,
                               const BenchLengthsOptions *options, Err *err) {
    cJSON *object = cJSON_CreateObject();
    bench_add_machine(object, all->gemm_peak, all->cpu_share);
    cJSON_AddStringToObject(object, "mode", options->training ? "train" : "inference");
    cJSON_AddNumberToObject(object, "layers", (double)config->model.layers);
    cJSON_AddNumberToObject(object, "width", (double)config->model.width);
    cJSON_AddNumberToObject(object, "tokens", (double)options->tokens);
    cJSON_AddNumberToObject(object, "memory_bytes", (double)options->memory);
    cJSON_AddNumberToObject(object, "available_bytes", (double)all->available);
    cJSON_AddNumberToObject(object, "estimate_s", all->estimate_s);
    cJSON *list = cJSON_AddArrayToObject(object, "cells");
    for (size_t i = 0; i < all->count; i++) add_cell(list, &all->cells[i]);
    return print_json(object, err);
}

/* ---- the command */

typedef struct Output {
    FILE *csv; /* or NULL */
    const BenchLengthsOptions *options;
    bool json;
    bool begun;
} Output;

static void report(void *context, const BenchCell *cells, size_t count) {
    Output *out = context;
    if (!out->json) print_row(cells, count, out->options->memory);
    if (out->csv) {
        bench_lengths_write_csv(out->csv, cells, count, out->options->training, !out->begun);
        fflush(out->csv);
    }
    out->begun = true;
}

static bool close_csv(FILE *file, const char *path, bool ok, Err *err) {
    if (!file) return ok;
    bool failed = ferror(file) != 0;
    failed |= fclose(file) != 0;
    if (ok && failed) return err_set(err, ERR_FAILED, "%s: cannot write all of it", path);
    return ok;
}

static void print_model(const Config *config) {
    const ModelConfig *m = &config->model;
    ModelConfig linformer = *m;
    char attention[64];
    linformer.attention = ATTENTION_LINFORMER;
    config_describe_attention(attention, sizeof attention, &linformer);
    printf("%zu layers, width %zu, %zu heads, ffn %zu, %s\n", m->layers, m->width, m->heads, m->ffn,
           attention);
}

static bool run_lengths(BenchLengths *all, Output *out, const Config *config, const Options *given,
                        Err *err) {
    if (given->csv && !(out->csv = fopen(given->csv, "w")))
        return err_set(err, ERR_FAILED, "%s: cannot create it: %s", given->csv, strerror(errno));
    bool ok = bench_lengths(all, config, out->options, report, out, err);
    ok = close_csv(out->csv, given->csv, ok, err);
    if (!ok) return false;
    if (out->json) {
        ok = print_lengths_json(all, config, out->options, err);
    } else {
        print_tables(all, out->options);
        if (!out->options->dry_run) bench_print_machine(all->cpu_share);
        print_model(config);
    }
    return ok &&
           (!given->svg || bench_lengths_write_svg(given->svg, all, out->options->training, err));
}

bool bench_lengths_command(const Args *args, bool training, Err *err) {
    const Options *o = &args->options;
    size_t n[BENCH_LENGTHS_MAX], k[BENCH_LENGTHS_MAX];
    BenchLengthsOptions options = {.training = training,
                                   .n = n,
                                   .k = k,
                                   .tokens = o->tokens ? o->tokens : TOKENS,
                                   .rounds = o->rounds ? o->rounds : ROUNDS,
                                   .seconds = o->seconds > 0 ? o->seconds : SECONDS,
                                   .memory = o->memory ? o->memory : MEMORY,
                                   .dry_run = o->dry_run};
    Output out = {.options = &options, .json = o->json};
    BenchLengths all = {0};
    Config config = {0};
    if (o->svg && o->dry_run)
        return err_set(err, ERR_CONFIG, "--svg has nothing to show of a --dry-run");
    bool ok = read_list(n, &options.n_count, "--n", o->n ? o->n : LENGTHS, 2, err) &&
              read_list(k, &options.k_count, "--k", o->k ? o->k : PROJECTED, 1, err) &&
              load_model(&config, args, err) && (!o->svg || bench_lengths_can_draw(err)) &&
              threads_start(o->threads ? o->threads : config.train.threads, err) &&
              run_lengths(&all, &out, &config, o, err);
    bench_lengths_free(&all);
    config_free(&config);
    return ok;
}
