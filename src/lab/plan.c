#include "plan.h"

#include <math.h>
#include <stdlib.h>

#include "layer_keys.h"
#include "params.h"
#include "train_memory.h"

/* Operations of a group of products: forward, and the two kinds of the backward pass. */
typedef struct Flops {
    double forward;
    double inputs;  /* gradients of inputs */
    double weights; /* gradients of weights that are trained */
} Flops;

/* y (rows,out) = x (rows,in) w^T */
static void add_linear(Flops *f, double rows, double in, double out) {
    double products = 2 * rows * in * out;
    f->forward += products;
    f->inputs += products;
    f->weights += products;
}

/* `times` sequence projections of the whole batch to P rows a sequence. */
static void add_seq_projection(Flops *f, const ModelConfig *config, double total, double P,
                               double times) {
    double products = 2 * times * P * total * (double)config->width;
    f->forward += products;
    f->inputs += products;
    if (config->projection == PROJECTION_LINEAR) f->weights += products;
}

/* A convolution multiplies each element of keys and values with one tap. */
static void add_convolution(Flops *f, double total, double C) {
    double products = 2 * 2 * total * C;
    f->forward += products;
    f->inputs += products;
    f->weights += products;
}

/* Tokens of sequences longer than a length. */
static double long_tokens(const size_t *lengths, size_t B, size_t longer_than) {
    size_t sum = 0;
    for (size_t b = 0; b < B; b++) sum += lengths[b] > longer_than ? lengths[b] : 0;
    return (double)sum;
}

/* Keys and values of layer l, `keys` rows of each, as src/model/projected_kv.c computes them. */
static void add_keys_values(Flops *f, const ModelConfig *config, size_t l, const size_t *lengths,
                            size_t B, size_t total, size_t keys) {
    double C = (double)config->width, P = (double)config->k[l];
    if (config->attention == ATTENTION_FULL) {
        add_linear(f, (double)total, C, 2 * C);
    } else if (model_pools(config)) {
        bool pools_first = layer_compresses_first(config, l, B, total);
        add_linear(f, (double)(pools_first ? keys : total), C, 2 * C);
        if (config->projection == PROJECTION_CONV) add_convolution(f, (double)total, C);
    } else if (layer_compresses_first(config, l, B, total)) {
        add_seq_projection(f, config, (double)total, P, config->tie_kv ? 1 : 2);
        add_linear(f, (double)B * P, C, 2 * C);
    } else {
        size_t longer_than = layer_short_length(config, l, B, total);
        add_linear(f, (double)total, C, 2 * C);
        add_seq_projection(f, config, long_tokens(lengths, B, longer_than), P, 2);
    }
}

/* A short sequence's products with E and F, keys and values in layer l, in the order of
 * short_attention.h. */
static void add_short(Flops *f, const ModelConfig *config, size_t l, size_t T) {
    double H = (double)config->heads, D = (double)config->width / H, P = (double)config->k[l];
    double t = (double)T, with_matrices = 2 * 2 * H * t * t * P;
    double all = with_matrices + 2 * 2 * H * t * t * D;
    f->forward += all;
    f->inputs += 2 * all - with_matrices;
    if (config->projection == PROJECTION_LINEAR) f->weights += with_matrices;
}

/* Scores and weighted sums of layer l. */
static void add_attention(Flops *f, const ModelConfig *config, size_t l, const size_t *lengths,
                          size_t B, size_t total) {
    size_t longer_than = layer_short_length(config, l, B, total);
    for (size_t b = 0; b < B; b++) {
        if (lengths[b] <= longer_than) {
            add_short(f, config, l, lengths[b]);
            continue;
        }
        double T = (double)lengths[b], keys = (double)layer_key_rows(config, l, lengths[b]);
        double products = 2 * 2 * T * keys * (double)config->width;
        f->forward += products;
        f->inputs += 2 * products; /* both factors of both products are activations */
    }
}

static Flops count_flops(const ModelConfig *config, const size_t *lengths, size_t B,
                         size_t masked) {
    Flops f = {0};
    size_t total = 0;
    double C = (double)config->width;
    for (size_t b = 0; b < B; b++) total += lengths[b];
    for (size_t l = 0; l < config->layers; l++) {
        size_t keys = 0;
        for (size_t b = 0; b < B; b++) keys += layer_key_rows(config, l, lengths[b]);
        add_linear(&f, (double)total, C, 2 * C); /* queries and output map */
        add_keys_values(&f, config, l, lengths, B, total, keys);
        add_attention(&f, config, l, lengths, B, total);
        add_linear(&f, (double)total, C,
                   2 * (double)config->ffn); /* both maps of the feed-forward block */
    }
    if (config->classes > 0)
        add_linear(&f, (double)B, C, C + (double)config->classes);
    else
        add_linear(&f, (double)masked, C, C + (double)config->vocab);
    return f;
}

double plan_forward_flops(const ModelConfig *config, const size_t *lengths, size_t B,
                          size_t masked) {
    return count_flops(config, lengths, B, masked).forward;
}

double plan_step_flops(const ModelConfig *config, const size_t *lengths, size_t B, size_t masked) {
    Flops f = count_flops(config, lengths, B, masked);
    return f.forward + f.inputs + f.weights;
}

static bool plan_memory(Plan *out, const Config *config, const ParamTable *table, Err *err) {
    TrainMemory memory;
    if (!train_micro_batch(&out->micro_batch, config, table, err) ||
        !train_memory(&memory, config, table, out->micro_batch, err))
        return false;
    out->weight_bytes = memory.weights;
    out->grad_bytes = memory.gradients;
    out->moment_bytes = memory.moments;
    out->activation_bytes = memory.activations;
    out->batch_bytes = memory.batch;
    out->memory_bytes = memory.total;
    return true;
}

static bool plan_flops(Plan *out, const Config *config, Err *err) {
    size_t B = out->micro_batch, n = config->model.n, *lengths = malloc(B * sizeof *lengths);
    if (!lengths) return err_set(err, ERR_FAILED, "out of memory for %zu sequence lengths", B);
    for (size_t b = 0; b < B; b++) lengths[b] = n;
    /* `<s>` is never masked */
    size_t masked = (size_t)llround(config->train.mask_rate * (double)(B * (n - 1)));
    double tokens = (double)B * (double)n;
    out->flops_per_token = plan_step_flops(&config->model, lengths, B, masked) / tokens;
    out->forward_flops_per_token = plan_forward_flops(&config->model, lengths, B, masked) / tokens;
    free(lengths);
    return true;
}

bool plan_compute(Plan *out, const Config *config, Err *err) {
    *out = (Plan){0};
    ParamTable table;
    if (!param_table_create(&table, &config->model, err)) return false;
    out->parameters = table.parameters;
    out->trainable = table.trainable;
    out->projection_matrices = table.projections;
    bool ok = plan_memory(out, config, &table, err) && plan_flops(out, config, err);
    param_table_destroy(&table);
    return ok;
}

double plan_budget_tokens(const Config *config, size_t epoch_tokens, double tokens_per_s) {
    const TrainConfig *train = &config->train;
    switch (train->budget_unit) {
    case BUDGET_STEPS: return train->budget * (double)train->batch * (double)config->model.n;
    case BUDGET_EPOCHS: return train->budget * (double)epoch_tokens;
    case BUDGET_TOKENS: return train->budget;
    case BUDGET_HOURS: return train->budget * 3600 * tokens_per_s;
    }
    return 0;
}
