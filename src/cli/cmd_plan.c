#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "cli.h"
#include "io.h"
#include "plan.h"
#include "prepare.h"
#include "threads.h"

/* Smaller than the benchmarks' product, because it is only an estimate. */
enum { PROBE_SIZE = 1024 };

/* Share of the matrix-product peak that training reaches, to estimate with; `bench step` measures
 * it. */
static const double USUAL_FRACTION = 0.6;
static const double PROBE_SECONDS = 0.3;

typedef struct Estimate {
    double peak_gflops; /* 0 where --gflops is given */
    double gflops;      /* sustained, assumed */
    double tokens_per_s;
    double tokens; /* of the budget; 0: not known */
    double hours;  /* 0: not known */
} Estimate;

/* Tokens of an epoch where the text has been prepared, else 0. */
static size_t epoch_tokens(const Config *config) {
    Manifest manifest = {0};
    Err ignored = {0}; /* not prepared yet: the estimate does without */
    bool known = manifest_load(&manifest, config->data.tokens, &ignored) && manifest.complete;
    size_t tokens = known ? manifest.train.totals.tokens : 0;
    manifest_free(&manifest);
    return tokens;
}

static bool estimate(Estimate *out, const Plan *plan, const Config *config, double gflops,
                     Err *err) {
    *out = (Estimate){.gflops = gflops};
    if (gflops == 0) {
        if (!bench_gemm_peak(&out->peak_gflops, PROBE_SIZE, PROBE_SECONDS, err)) return false;
        out->gflops = USUAL_FRACTION * out->peak_gflops;
    }
    out->tokens_per_s = out->gflops * 1e9 / plan->flops_per_token;
    out->tokens = plan_budget_tokens(config, epoch_tokens(config), out->tokens_per_s);
    out->hours = out->tokens / out->tokens_per_s / 3600;
    return true;
}

static void print_lengths(const ModelConfig *model) {
    if (model->attention == ATTENTION_FULL) {
        printf("projection matrices  none: full attention\n");
        return;
    }
    bool uniform = true;
    for (size_t l = 1; l < model->layers; l++) uniform &= model->k[l] == model->k[0];
    printf("projected length k   %zu", model->k[0]);
    for (size_t l = 1; l < model->layers && !uniform; l++) printf(", %zu", model->k[l]);
    char attention[64];
    config_describe_attention(attention, sizeof attention, model);
    printf(" of n = %zu, %s\n", model->n, attention);
}

static void print_text(const Plan *plan, const Config *config, const Estimate *e) {
    printf("parameters           %s, %s of them trained (vocabulary %s)\n",
           show_count(plan->parameters), show_count(plan->trainable),
           show_count(config->model.vocab));
    if (plan->projection_matrices) printf("projection matrices  %zu\n", plan->projection_matrices);
    print_lengths(&config->model);
    printf("memory               %s for %zu sequences of %zu tokens at a time\n",
           show_bytes(plan->memory_bytes), plan->micro_batch, config->model.n);
    printf("    weights          %s\n    gradients        %s\n    moments          %s\n",
           show_bytes(plan->weight_bytes), show_bytes(plan->grad_bytes),
           show_bytes(plan->moment_bytes));
    static const char *const kept[] = {"", ", without the insides of feed-forward blocks",
                                       ", of each layer only its input"};
    printf("    activations      %s%s\n", show_bytes(plan->activation_bytes),
           kept[config->model.recompute]);
    printf("    batch            %s\n", show_bytes(plan->batch_bytes));
    printf("operations           %.4g MFLOP a token (forward %.4g)\n", plan->flops_per_token / 1e6,
           plan->forward_flops_per_token / 1e6);
    printf("speed                about %.3g tokens/s at %.4g GFLOP/s", e->tokens_per_s, e->gflops);
    if (e->peak_gflops > 0)
        printf(", %.0f%% of the %.4g that a large product reaches here", 100 * USUAL_FRACTION,
               e->peak_gflops);
    printf("\nbudget               ");
    if (e->tokens > 0)
        printf("%s tokens, about %.*f hours\n", show_count((size_t)e->tokens),
               e->hours < 10 ? 2 : 0, e->hours);
    else
        printf("tokens not known before the text is prepared\n");
}

static cJSON *memory_json(const Plan *plan) {
    cJSON *memory = cJSON_CreateObject();
    cJSON_AddNumberToObject(memory, "weights", (double)plan->weight_bytes);
    cJSON_AddNumberToObject(memory, "gradients", (double)plan->grad_bytes);
    cJSON_AddNumberToObject(memory, "moments", (double)plan->moment_bytes);
    cJSON_AddNumberToObject(memory, "activations", (double)plan->activation_bytes);
    cJSON_AddNumberToObject(memory, "batch", (double)plan->batch_bytes);
    return memory;
}

static void add_number_or_null(cJSON *object, const char *name, double value) {
    if (value > 0)
        cJSON_AddNumberToObject(object, name, value);
    else
        cJSON_AddNullToObject(object, name);
}

static bool write_json(const Plan *plan, const Config *config, const Estimate *e, Err *err) {
    cJSON *object = cJSON_CreateObject();
    cJSON_AddNumberToObject(object, "parameters", (double)plan->parameters);
    cJSON_AddNumberToObject(object, "trainable", (double)plan->trainable);
    cJSON_AddNumberToObject(object, "projection_matrices", (double)plan->projection_matrices);
    cJSON *k = cJSON_AddArrayToObject(object, "k");
    for (size_t l = 0; l < config->model.layers && config->model.attention == ATTENTION_LINFORMER;
         l++)
        cJSON_AddItemToArray(k, cJSON_CreateNumber((double)config->model.k[l]));
    cJSON_AddNumberToObject(object, "vocab", (double)config->model.vocab);
    cJSON_AddNumberToObject(object, "micro_batch", (double)plan->micro_batch);
    cJSON_AddNumberToObject(object, "memory_bytes", (double)plan->memory_bytes);
    cJSON_AddItemToObject(object, "memory", memory_json(plan));
    cJSON_AddNumberToObject(object, "flops_per_token", plan->flops_per_token);
    cJSON_AddNumberToObject(object, "forward_flops_per_token", plan->forward_flops_per_token);
    add_number_or_null(object, "peak_gflops", e->peak_gflops);
    cJSON_AddNumberToObject(object, "gflops", e->gflops);
    cJSON_AddNumberToObject(object, "tokens_per_s", e->tokens_per_s);
    add_number_or_null(object, "tokens", e->tokens);
    add_number_or_null(object, "hours", e->hours);
    return print_json(object, err);
}

static bool run(const Args *args, Err *err) {
    Config config;
    Plan plan;
    Estimate e;
    bool ok = load_config(&config, args, 0, err) && take_vocab(&config, err);
    if (ok) threads_set(config.train.threads);
    ok = ok && plan_compute(&plan, &config, err) &&
         estimate(&e, &plan, &config, args->options.gflops, err);
    if (ok && args->options.json)
        ok = write_json(&plan, &config, &e, err);
    else if (ok)
        print_text(&plan, &config, &e);
    config_free(&config);
    return ok;
}

static const Option options[] = {
    {"--gflops", OPTION_NUMBER, offsetof(Options, gflops), 1e-3, 1e9, "G",
     "model GFLOP/s to estimate the time with, as `bench step` prints it (default: a short "
     "measurement)"},
    OPTION_JSON,
    OPTION_QUIET,
    OPTION_HELP,
    {0},
};

const Command command_plan = {
    .name = "plan",
    .arguments = "CONFIG [section.key=value ...]",
    .summary =
        "parameters, memory, operations and an estimated time of a pretraining, without running it",
    .notes = "Needs neither text nor tokenizer. Memory is what training allocates; program and "
             "libraries come on top.\n"
             "Operations are those of the matrix products of the forward and backward passes, two "
             "a multiply-add, without\n"
             "what the backward pass recomputes.",
    .options = options,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .run = run,
};
