#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "cli.h"
#include "threads.h"

static const double MIB = 1 << 20;

/* Below this share of the processors the measured speeds say more about other programs. */
static const double FAIR_SHARE = 0.85;

void bench_print_machine(double cpu_share) {
    char text[256];
    threads_describe(text, sizeof text);
    printf("%s\n", text);
    if (threads_warning()) printf("warning: %s\n", threads_warning());
    if (cpu_share < FAIR_SHARE)
        printf("warning: the threads got only %.0f%% of the processor time they asked for: other "
               "programs are running, "
               "and the speeds are too low\n",
               100 * cpu_share);
}

void bench_add_machine(cJSON *object, double gemm_peak, double cpu_share) {
    char text[256];
    threads_describe(text, sizeof text);
    cJSON_AddNumberToObject(object, "peak_gflops", gemm_peak);
    cJSON_AddStringToObject(object, "blas_kernel", threads_blas_kernel());
    cJSON_AddNumberToObject(object, "cpu_share", cpu_share);
    cJSON_AddStringToObject(object, "machine", text);
    if (threads_warning())
        cJSON_AddStringToObject(object, "warning", threads_warning());
    else
        cJSON_AddNullToObject(object, "warning");
}

/* ---- bench kernels */

static void print_kernels(const BenchKernels *kernels) {
    bench_print_machine(kernels->cpu_share);
    printf("peaks: matrix product %.1f GFLOP/s, fused multiply-adds %.1f GFLOP/s (the product "
           "reaches %.0f%%)",
           kernels->gemm_peak, kernels->fma_peak, 100 * kernels->gemm_peak / kernels->fma_peak);
    if (kernels->bf16_peak > 0) printf(", bf16 dot products %.1f GFLOP/s", kernels->bf16_peak);
    printf("\nof peak: share of the matrix product's\n\n");
    printf("%-6s %-30s %-30s %10s %9s %8s %7s\n", "model", "kernel", "shape", "ms", "GFLOP/s",
           "of peak", "GB/s");
    for (size_t i = 0; i < kernels->count; i++) {
        const BenchKernel *k = &kernels->items[i];
        printf("%-6s %-30s %-30s %10.3f ", k->model, k->name, k->shape, 1e3 * k->seconds);
        if (k->gflops > 0)
            printf("%9.1f %7.0f%%\n", k->gflops, 100 * k->gflops / kernels->gemm_peak);
        else
            printf("%9s %8s %7.1f\n", "", "", k->gbytes);
    }
}

static bool print_kernels_json(const BenchKernels *kernels, Err *err) {
    cJSON *object = cJSON_CreateObject();
    bench_add_machine(object, kernels->gemm_peak, kernels->cpu_share);
    cJSON_AddNumberToObject(object, "fma_gflops", kernels->fma_peak);
    cJSON_AddNumberToObject(object, "bf16_gflops", kernels->bf16_peak);
    cJSON *list = cJSON_AddArrayToObject(object, "kernels");
    for (size_t i = 0; i < kernels->count; i++) {
        const BenchKernel *k = &kernels->items[i];
        cJSON *item = cJSON_CreateObject();
        cJSON_AddItemToArray(list, item);
        cJSON_AddStringToObject(item, "model", k->model);
        cJSON_AddStringToObject(item, "kernel", k->name);
        cJSON_AddStringToObject(item, "shape", k->shape);
        cJSON_AddNumberToObject(item, "seconds", k->seconds);
        if (k->gflops > 0) {
            cJSON_AddNumberToObject(item, "gflops", k->gflops);
            cJSON_AddNumberToObject(item, "fraction_of_peak", k->gflops / kernels->gemm_peak);
        } else {
            cJSON_AddNumberToObject(item, "gbytes_per_s", k->gbytes);
        }
    }
    return print_json(object, err);
}

static bool run_kernels(const Args *args, Err *err) {
    if (args->count > 1)
        return err_set(err, ERR_CONFIG, "bench kernels: unexpected argument %s", args->items[1]);
    BenchKernels kernels;
    bool ok = threads_start(args->options.threads, err) && bench_kernels(&kernels, err);
    if (!ok) return false;
    if (args->options.json)
        ok = print_kernels_json(&kernels, err);
    else
        print_kernels(&kernels);
    bench_kernels_free(&kernels);
    return ok;
}

/* ---- bench step */

/* By the matrix product's speed, not by memory's?  Pooling is no product: less than an operation a
 * byte. */
static bool part_is_product(const BenchStep *s, ProfilePart part) {
    const ProfileEntry *entry = &s->profile.parts[part];
    return profile_part_is_product(part) && entry->operations >= entry->bytes;
}

/* Share of the peak that limits the part: matrix products, or memory. */
static double part_fraction(const BenchStep *s, ProfilePart part) {
    const ProfileEntry *entry = &s->profile.parts[part];
    if (!(entry->seconds > 0)) return 0;
    if (part_is_product(s, part)) return entry->operations / entry->seconds / 1e9 / s->peak_gflops;
    return entry->bytes / entry->seconds / 1e9 / s->memory_peak;
}

static void print_profile(const BenchStep *s) {
    double all = profile_seconds(&s->profile), steps = (double)s->steps;
    printf("peaks      %.1f GFLOP/s (matrix product), %.1f GB/s (memory)\n\n", s->peak_gflops,
           s->memory_peak);
    printf("%-20s %10s %7s %10s %10s %9s %8s %8s\n", "part", "ms a step", "share", "GFLOP", "GB",
           "GFLOP/s", "GB/s", "of peak");
    for (ProfilePart part = 0; part < PROFILE_PARTS; part++) {
        const ProfileEntry *entry = &s->profile.parts[part];
        if (entry->laps == 0) continue;
        printf("%-20s %10.2f %6.1f%% %10.3f %10.4f %9.1f %8.1f %7.0f%%\n", profile_part_name(part),
               1e3 * entry->seconds / steps, 100 * entry->seconds / all,
               entry->operations / steps / 1e9, entry->bytes / steps / 1e9,
               entry->operations / entry->seconds / 1e9, entry->bytes / entry->seconds / 1e9,
               100 * part_fraction(s, part));
    }
    printf("%-20s %10.2f %6.1f%%\n", "all", 1e3 * all / steps, 100.0);
}

/* Of one step. */
static void add_profile(cJSON *object, const BenchStep *s) {
    double all = profile_seconds(&s->profile), steps = (double)s->steps;
    cJSON_AddNumberToObject(object, "memory_gbytes_per_s", s->memory_peak);
    cJSON *list = cJSON_AddArrayToObject(object, "profile");
    for (ProfilePart part = 0; part < PROFILE_PARTS; part++) {
        const ProfileEntry *entry = &s->profile.parts[part];
        if (entry->laps == 0) continue;
        cJSON *item = cJSON_CreateObject();
        cJSON_AddItemToArray(list, item);
        cJSON_AddStringToObject(item, "part", profile_part_name(part));
        cJSON_AddNumberToObject(item, "seconds", entry->seconds / steps);
        cJSON_AddNumberToObject(item, "share", entry->seconds / all);
        cJSON_AddNumberToObject(item, "operations", entry->operations / steps);
        cJSON_AddNumberToObject(item, "bytes", entry->bytes / steps);
        cJSON_AddStringToObject(item, "limit",
                                part_is_product(s, part) ? "matrix product" : "memory");
        cJSON_AddNumberToObject(item, "fraction_of_peak", part_fraction(s, part));
    }
}

static void print_step(const BenchStep *s, const Config *config) {
    const ModelConfig *m = &config->model;
    char attention[64];
    config_describe_attention(attention, sizeof attention, m);
    bench_print_machine(s->cpu_share);
    printf(
        "model      %zu layers, width %zu, %zu heads, ffn %zu, n %zu, k %zu, %s, vocabulary %s\n",
        m->layers, m->width, m->heads, m->ffn, m->n, m->k[0], attention, show_count(m->vocab));
    printf("precision  %s\n", precision_name(m->precision));
    printf("batch      %zu sequences, %s tokens, %s masked\n", s->sequences, show_count(s->tokens),
           show_count(s->masked));
    printf("step       %.1f ms, median of %zu (%.1f to %.1f)\n", 1e3 * s->step_s, s->steps,
           1e3 * s->step_min_s, 1e3 * s->step_max_s);
    printf("speed      %.0f tokens/s\n", s->tokens_per_s);
    printf("           %.1f GFLOP/s, %.1f%% of the %.1f that a large matrix product reaches\n",
           s->gflops, 100 * s->fraction_of_peak, s->peak_gflops);
    printf("memory     %.0f MiB resident at most, %.0f of them program and libraries; predicted "
           "%.0f MiB for training\n",
           (double)s->peak_rss / MIB, (double)s->start_rss / MIB, (double)s->predicted_bytes / MIB);
    printf("           %s page faults in the %zu steps\n", show_count(s->page_faults), s->steps);
    printf("loss       %.4f to %.4f (random ids: about ln V)\n", s->loss_first, s->loss_last);
    if (s->memory_peak > 0) print_profile(s);
}

static bool print_step_json(const BenchStep *s, const Config *config, Err *err) {
    cJSON *object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "precision", precision_name(config->model.precision));
    cJSON_AddNumberToObject(object, "tokens_per_s", s->tokens_per_s);
    cJSON_AddNumberToObject(object, "gflops", s->gflops);
    bench_add_machine(object, s->peak_gflops, s->cpu_share);
    cJSON_AddNumberToObject(object, "fraction_of_peak", s->fraction_of_peak);
    cJSON_AddNumberToObject(object, "step_s", s->step_s);
    cJSON_AddNumberToObject(object, "step_min_s", s->step_min_s);
    cJSON_AddNumberToObject(object, "step_max_s", s->step_max_s);
    cJSON_AddNumberToObject(object, "steps", (double)s->steps);
    cJSON_AddNumberToObject(object, "sequences", (double)s->sequences);
    cJSON_AddNumberToObject(object, "tokens", (double)s->tokens);
    cJSON_AddNumberToObject(object, "masked", (double)s->masked);
    cJSON_AddNumberToObject(object, "peak_rss_mib", (double)s->peak_rss / MIB);
    cJSON_AddNumberToObject(object, "start_rss_mib", (double)s->start_rss / MIB);
    cJSON_AddNumberToObject(object, "predicted_mib", (double)s->predicted_bytes / MIB);
    cJSON_AddNumberToObject(object, "page_faults", (double)s->page_faults);
    cJSON_AddNumberToObject(object, "loss_first", s->loss_first);
    cJSON_AddNumberToObject(object, "loss_last", s->loss_last);
    if (s->memory_peak > 0) add_profile(object, s);
    return print_json(object, err);
}

static bool run_step(const Args *args, Err *err) {
    if (args->count < 2)
        return err_set(err, ERR_CONFIG,
                       "bench step needs a CONFIG: bench step CONFIG [section.key=value ...]");
    const Options *o = &args->options;
    const BenchStepOptions options = {
        .sequences = o->sequences, .steps = o->steps, .warmup = o->warmup, .profile = o->profile};
    Config config;
    BenchStep step;
    bool ok = load_config(&config, args, 1, err) && take_vocab(&config, err) &&
              threads_start(o->threads ? o->threads : config.train.threads, err) &&
              bench_step(&step, &config, &options, err);
    if (ok && o->json)
        ok = print_step_json(&step, &config, err);
    else if (ok)
        print_step(&step, &config);
    config_free(&config);
    return ok;
}

/* ---- bench serve */

static bool run_serve(const Args *args, Err *err) {
    if (args->count < 2)
        return err_set(err, ERR_CONFIG,
                       "bench serve needs a CONFIG: bench serve CONFIG [section.key=value ...]");
    const Options *o = &args->options;
    Config config;
    bool ok = load_config(&config, args, 1, err) && take_vocab(&config, err) &&
              threads_start(o->threads ? o->threads : config.train.threads, err) &&
              bench_serve(stdin, stdout, &config, o->sequences, !o->inference, err);
    config_free(&config);
    return ok;
}

/* ---- bench finetune */

static void print_finetune(const BenchFinetune *b) {
    bench_print_machine(b->cpu_share);
    printf("updates    %zu, each with its rows as they are and filled up to %zu tokens, in turn\n",
           b->steps, b->pad);
    printf("rows       %s, %s of them longer than that\n", show_count(b->rows),
           show_count(b->longer));
    printf("%-10s %14s %12s %14s %14s\n", "", "tokens", "s", "tokens/s", "s an epoch");
    printf("%-10s %14s %12.3f %14.0f %14.1f\n", "ragged", show_count(b->ragged_tokens), b->ragged_s,
           (double)b->ragged_tokens / b->ragged_s, b->epoch_ragged_s);
    printf("%-10s %14s %12.3f %14.0f %14.1f\n", "padded", show_count(b->padded_tokens), b->padded_s,
           (double)b->padded_tokens / b->padded_s, b->epoch_padded_s);
    printf("ratio      %.2f in time (half of the updates %.2f to %.2f), %.2f in tokens\n", b->ratio,
           b->ratio_low, b->ratio_high, (double)b->padded_tokens / (double)b->ragged_tokens);
}

static bool print_finetune_json(const BenchFinetune *b, Err *err) {
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "ratio", b->ratio);
    cJSON_AddNumberToObject(object, "ratio_low", b->ratio_low);
    cJSON_AddNumberToObject(object, "ratio_high", b->ratio_high);
    cJSON_AddNumberToObject(object, "pad", (double)b->pad);
    cJSON_AddNumberToObject(object, "steps", (double)b->steps);
    cJSON_AddNumberToObject(object, "rows", (double)b->rows);
    cJSON_AddNumberToObject(object, "longer", (double)b->longer);
    cJSON_AddNumberToObject(object, "ragged_tokens", (double)b->ragged_tokens);
    cJSON_AddNumberToObject(object, "padded_tokens", (double)b->padded_tokens);
    cJSON_AddNumberToObject(object, "ragged_s", b->ragged_s);
    cJSON_AddNumberToObject(object, "padded_s", b->padded_s);
    cJSON_AddNumberToObject(object, "epoch_ragged_s", b->epoch_ragged_s);
    cJSON_AddNumberToObject(object, "epoch_padded_s", b->epoch_padded_s);
    cJSON_AddNumberToObject(object, "cpu_share", b->cpu_share);
    return print_json(object, err);
}

static bool run_finetune(const Args *args, Err *err) {
    if (args->count < 2)
        return err_set(
            err, ERR_CONFIG,
            "bench finetune needs a CONFIG: bench finetune CONFIG [section.key=value ...]");
    const Options *o = &args->options;
    const BenchFinetuneOptions options = {.pad = o->pad, .steps = o->steps};
    Config config;
    BenchFinetune result;
    bool ok = load_task_config(&config, args, 1, err);
    if (ok && o->threads) config.train.threads = o->threads;
    ok = ok && config_resolve_data(&config, err) && bench_finetune(&result, &config, &options, err);
    if (ok && o->json)
        ok = print_finetune_json(&result, err);
    else if (ok)
        print_finetune(&result);
    config_free(&config);
    return ok;
}

/* What another kind of benchmark takes must not be ignored silently. */
static bool check_options(const Options *o, const char *kind, Err *err) {
    static const char LENGTHS[] = "inference train";
    const struct {
        const char *name, *kinds;
        bool is_given;
    } given[] = {{"--sequences", "step serve", o->sequences > 0},
                 {"--steps", "step finetune", o->steps > 0},
                 {"--warmup", "step", o->warmup > 0},
                 {"--profile", "step", o->profile},
                 {"--inference", "serve", o->inference},
                 {"--pad", "finetune", o->pad > 0},
                 {"--n", LENGTHS, o->n},
                 {"--k", LENGTHS, o->k},
                 {"--layers", LENGTHS, o->layers > 0},
                 {"--tokens", LENGTHS, o->tokens > 0},
                 {"--rounds", LENGTHS, o->rounds > 0},
                 {"--seconds", LENGTHS, o->seconds > 0},
                 {"--memory", LENGTHS, o->memory > 0},
                 {"--csv", LENGTHS, o->csv},
                 {"--svg", LENGTHS, o->svg},
                 {"--dry-run", LENGTHS, o->dry_run}};
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        if (given[i].is_given && !strstr(given[i].kinds, kind))
            return err_set(err, ERR_CONFIG, "bench %s takes no %s", kind, given[i].name);
    }
    return true;
}

static bool run_inference(const Args *args, Err *err) {
    return bench_lengths_command(args, false, err);
}

static bool run_train(const Args *args, Err *err) {
    return bench_lengths_command(args, true, err);
}

static bool run(const Args *args, Err *err) {
    static const struct {
        const char *name;
        bool (*run)(const Args *args, Err *err);
    } kinds[] = {{"kernels", run_kernels}, {"step", run_step},   {"inference", run_inference},
                 {"train", run_train},     {"serve", run_serve}, {"finetune", run_finetune}};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    const char *kind = args->items[0], *names[KINDS + 1] = {0};
    for (size_t i = 0; i < KINDS; i++) {
        names[i] = kinds[i].name;
        if (!strcmp(kind, names[i]))
            return check_options(&args->options, kind, err) && kinds[i].run(args, err);
    }
    const char *near = near_word(kind, names);
    if (near) return err_set(err, ERR_CONFIG, "bench %.40s: did you mean bench %s", kind, near);
    return err_set(err, ERR_CONFIG,
                   "bench %.40s: wanted `bench kernels`, `bench step CONFIG`, `bench inference`, "
                   "`bench train` or `bench finetune CONFIG`",
                   kind);
}

static const Option options[] = {
    {"--sequences", OPTION_COUNT, offsetof(Options, sequences), 1, 1e6, "B",
     "step, serve: sequences in the batch (default: train.micro_batch)"},
    {"--steps", OPTION_COUNT, offsetof(Options, steps), 1, 1e6, "N",
     "step: measured steps (default 10); finetune: measured updates of each kind (default 50)"},
    {"--warmup", OPTION_COUNT, offsetof(Options, warmup), 1, 1e6, "N",
     "step: steps before those (default 3)"},
    {"--profile", OPTION_FLAG, offsetof(Options, profile), 0, 0, NULL,
     "step: time, operations and bytes of each part, and its share of the machine's peak"},
    {"--inference", OPTION_FLAG, offsetof(Options, inference), 0, 0, NULL,
     "serve: passes of the encoder in place of updates"},
    {"--pad", OPTION_COUNT, offsetof(Options, pad), 1, 1e6, "T",
     "finetune: tokens that rows are filled up to (default 128)"},
    {"--n", OPTION_TEXT, offsetof(Options, n), 0, 0, "LIST",
     "inference, train: sequence lengths (default 512,1024,2048,4096,8192,16384,32768,65536)"},
    {"--k", OPTION_TEXT, offsetof(Options, k), 0, 0, "LIST",
     "projected lengths, used where at most n (default 128,256,512,1024,2048)"},
    {"--layers", OPTION_COUNT, offsetof(Options, layers), 1, CONFIG_MAX_LAYERS, "L",
     "layers (default: the config's; without a config 2)"},
    {"--tokens", OPTION_COUNT, offsetof(Options, tokens), 1, 1e9, "T",
     "tokens of a batch at every n, one sequence where n is more (default 16384)"},
    {"--rounds", OPTION_COUNT, offsetof(Options, rounds), 1, 1000, "R",
     "turns that each contender gets at one n (default 5)"},
    {"--seconds", OPTION_NUMBER, offsetof(Options, seconds), 0.01, 1e6, "S",
     "no new round at an n after so long, but two rounds at least (default 300)"},
    {"--memory", OPTION_BYTES, offsetof(Options, memory), 0, 0, "BYTES",
     "name the largest batch that fits into so much (default 16GiB)"},
    {"--csv", OPTION_TEXT, offsetof(Options, csv), 0, 0, "FILE",
     "also write all numbers there, as they come"},
    {"--svg", OPTION_TEXT, offsetof(Options, svg), 0, 0, "FILE",
     "and a picture of time and memory against n (needs gnuplot)"},
    {"--dry-run", OPTION_FLAG, offsetof(Options, dry_run), 0, 0, NULL,
     "print predicted memory, bounds and the time needed; run nothing"},
    OPTION_THREADS,
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_HELP,
    {0},
};

const Command command_bench = {
    .name = "bench",
    .arguments = "kernels | step CONFIG | inference [CONFIG] | train [CONFIG] | serve CONFIG | "
                 "finetune CONFIG, all with [section.key=value ...]",
    .summary =
        "speed and memory of kernels and training steps, over n and k beside full attention, "
        "and without padding",
    .notes =
        "bench kernels   every kernel at two sizes beside the peaks of this machine, about 15 "
        "seconds\n"
        "bench step      forward, backward, clipping and optimizer on random full-length "
        "sequences; needs no text\n"
        "bench inference time and memory of forward passes of the encoder over sequence lengths n "
        "and projected lengths k,\n"
        "                beside full attention that stores its probabilities, and block-wise "
        "(model.attention: full)\n"
        "bench train     the same of whole updates\n"
        "bench serve     one step at each line \"step\" of stdin, answered as JSON: for "
        "scripts/compare_torch.py\n"
        "bench finetune  updates on the rows of a task, as they are and filled up with `<pad>` to "
        "one length\n\n"
        "Without a CONFIG, inference and train take two layers of width 768 with 12 heads, one E "
        "and F a layer, and a\n"
        "vocabulary of 32,000. At every n the contenders take turns; a speed-up is the median of "
        "the rounds' ratios. Beside\n"
        "it stands the ratio of operations, which it would reach if both sides computed equally "
        "fast. Memory is what a\n"
        "contender adds to the process; where the prediction exceeds what is free it is not "
        "run.\n\n"
        "bench step --profile shows where the time goes. Operations and bytes of a part are those "
        "done, recomputation\n"
        "included; its peak is the matrix product's, or that of a sum of two large arrays. Above "
        "100% the data came\n"
        "from the caches.\n\n"
        "The peak is that of a large matrix product, measured in the same run with the same "
        "threads. `gflops` counts the\n"
        "model's operations (see `help plan`), so that recomputation does not look like speed.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .run = run,
};
