#include "model_fixture.h"

#include <stdlib.h>
#include <string.h>

#include "classifier_head.h"
#include "encoder.h"
#include "harness.h"
#include "io.h"
#include "mlm_head.h"
#include "rng.h"
#include "threads.h"

ModelConfig model_config_tiny(void) {
    return (ModelConfig){.n = 11,
                         .k = {5, 3},
                         .scope = SCOPE_LAYER,
                         .tie_kv = false,
                         .projection = PROJECTION_LINEAR,
                         .attention = ATTENTION_LINFORMER,
                         .layers = 2,
                         .width = 12,
                         .heads = 3,
                         .ffn = 20,
                         .proj_init_std = 0.1,
                         .norm = NORM_POST,
                         .vocab = 37};
}

void model_set_pooling(ModelConfig *config, size_t i) {
    static const Scope scopes[MODEL_POOLINGS] = {SCOPE_LAYER, SCOPE_LAYER, SCOPE_HEAD, SCOPE_LAYER,
                                                 SCOPE_MODEL};
    REQUIRE(i < MODEL_POOLINGS);
    config->projection = i == 0 ? PROJECTION_MEAN : i == 1 ? PROJECTION_MAX : PROJECTION_CONV;
    config->scope = scopes[i];
    config->tie_kv = i == 3;
}

ModelConfig model_config_local(size_t n, size_t width, size_t heads, Scope scope, size_t k) {
    return (ModelConfig){.n = n,
                         .k = {k, k, k},
                         .scope = scope,
                         .layers = 2,
                         .width = width,
                         .heads = heads,
                         .ffn = 20,
                         .init = INIT_SCHEME_LOCAL,
                         .norm = NORM_PRE,
                         .vocab = 61};
}

static void require_made(bool made, const Err *err) {
    CHECK_MSG(made, "%s", err->msg);
    if (!made) test_end();
}

real *model_create_block(Arena *arena, const ParamTable *table) {
    Err err = {0};
    real *block = NULL;
    require_made(param_blocks_create(&block, arena, table, 1, &err), &err);
    return block;
}

void model_create(Model *out, const ModelConfig *config, size_t max_B, size_t max_total,
                  ActMode mode) {
    model_create_threads(out, config, max_B, max_total, mode, 1);
}

void model_create_threads(Model *out, const ModelConfig *config, size_t max_B, size_t max_total,
                          ActMode mode, size_t threads) {
    Err err = {0};
    threads_set(threads);
    *out = (Model){.config = *config};
    require_made(param_table_create(&out->table, config, &err), &err);
    out->weights = model_create_block(&out->weights_arena, &out->table);
    out->grads = model_create_block(&out->grads_arena, &out->table);
    require_made(activations_create(&out->acts, config, max_B, max_total, mode, &err), &err);
    params_view(&out->params, &out->table, config, out->weights);
    params_view(&out->d_params, &out->table, config, out->grads);
    model_randomize(out, 1);
}

void model_destroy(Model *model) {
    activations_destroy(&model->acts);
    arena_destroy(&model->grads_arena);
    arena_destroy(&model->weights_arena);
    param_table_destroy(&model->table);
}

static void randomize_tensor(real *w, const Tensor *tensor, uint64_t key) {
    double mean = 0, std = 0.3;
    if (tensor->init == INIT_ONE) mean = 1;
    if (tensor->init == INIT_NORMAL || tensor->init == INIT_POSITION) std = 0.4;
    if (tensor->init == INIT_PROJECTION) std = 0.5;
    for (size_t i = 0; i < tensor->count; i++)
        w[i] = (real)(float)(mean + std * rng_normal(key, i));
}

void model_randomize(Model *model, uint64_t seed) {
    memset(model->weights, 0, model->table.block_reals * sizeof(real));
    for (size_t i = 0; i < model->table.count; i++) {
        const Tensor *tensor = &model->table.items[i];
        uint64_t key = rng_key(seed, RNG_TEST, io_hash(tensor->name, strlen(tensor->name)), 0);
        randomize_tensor(model->weights + tensor->offset, tensor, key);
    }
}

void model_copy_weights(Model *to, const Model *from) {
    for (size_t i = 0; i < to->table.count; i++) {
        const Tensor *t = &to->table.items[i], *f = param_table_find(&from->table, t->name);
        if (!f) continue;
        REQUIRE(f->rows == t->rows && f->cols == t->cols);
        memcpy(to->weights + t->offset, from->weights + f->offset, t->count * sizeof(real));
    }
}

void model_zero_grads(Model *model) {
    memset(model->grads, 0, model->table.block_reals * sizeof(real));
}

static size_t offset_of(const Model *model, const char *name) {
    const Tensor *tensor = param_table_find(&model->table, name);
    CHECK_MSG(tensor != NULL, "no tensor is called %s", name);
    if (!tensor) test_end();
    return tensor->offset;
}

real *model_weight(Model *model, const char *name) {
    return model->weights + offset_of(model, name);
}
real *model_grad(Model *model, const char *name) {
    return model->grads + offset_of(model, name);
}

double model_class_loss(const Model *model, const Batch *batch) {
    double sum = 0;
    for (size_t b = 0; b < batch->B; b++)
        sum -= (double)model->acts.class_logits[b * model->config.classes + batch->classes[b]];
    return sum;
}

double model_loss(Model *model, const Batch *batch) {
    encoder_forward(&model->acts, &model->params, &model->config, batch);
    if (model->config.classes > 0) {
        classifier_head_log_probs(&model->acts, &model->params, &model->config, batch);
        return model_class_loss(model, batch) / (double)batch->B;
    }
    return mlm_head_loss(&model->acts, &model->params, &model->config, batch) /
           (double)batch->masked;
}

double model_backward(Model *model, const Batch *batch, double loss_scale) {
    encoder_forward(&model->acts, &model->params, &model->config, batch);
    double (*head)(Activations *, Params *, const Params *, const ModelConfig *, const Batch *,
                   double) =
        model->config.classes > 0 ? classifier_head_loss_backward : mlm_head_loss_backward;
    double sum =
        head(&model->acts, &model->d_params, &model->params, &model->config, batch, loss_scale);
    encoder_backward(&model->acts, &model->d_params, &model->params, &model->config, batch);
    return loss_scale * sum;
}

static double largest(const real *x, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        if (isnan((double)x[i])) return NAN;
        most = fmax(most, fabs((double)x[i]));
    }
    return most;
}

static double largest_difference(const real *a, const real *b, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (isnan(d)) return NAN;
        most = fmax(most, d);
    }
    return most;
}

double array_error(const real *a, const real *b, size_t count) {
    double difference = largest_difference(a, b, count);
    return difference == 0 ? 0 : difference / largest(b, count);
}

void check_grads_equal(const Model *a, const Model *b, double floor, double tol) {
    const ParamTable *table = &b->table;
    double all = largest(b->grads, table->block_reals);
    CHECK_MSG(all > 0 && isfinite(all), "the largest gradient is %g", all);
    for (size_t i = 0; i < table->count; i++) {
        const Tensor *t = &table->items[i];
        const real *ga = a->grads + t->offset, *gb = b->grads + t->offset;
        double scale = fmax(largest(gb, t->count), floor * all);
        double error = largest_difference(ga, gb, t->count) / scale;
        CHECK_MSG(error <= tol, "gradient of %s: error %.2e of %.3e, allowed %.1e", t->name, error,
                  scale, tol);
    }
}

void check_loss_scale(Model *model, const Batch *batch, double tol) {
    Model other;
    model_create(&other, &model->config, batch->B, batch->total, ACTS_TRAINING);
    double loss = model_backward(model, batch, 1);
    CHECK_CLOSE(model_backward(&other, batch, 0.125) / loss, 0.125, tol);
    for (size_t j = 0; j < model->table.block_reals; j++) other.grads[j] *= 8;
    check_grads_equal(&other, model, 1e-5, 10 * tol);
    model_destroy(&other);
}

static void batch_allocate(Batch *out, size_t B, size_t total) {
    *out = (Batch){.B = B, .total = total};
    out->start = calloc(B + 1, sizeof *out->start);
    out->ids = calloc(total, sizeof *out->ids);
    out->seq_key = calloc(B, sizeof *out->seq_key);
    out->masked_rows = calloc(total, sizeof *out->masked_rows);
    out->labels = calloc(total, sizeof *out->labels);
    out->classes = calloc(B, sizeof *out->classes);
    REQUIRE(out->start && out->ids && out->seq_key && out->masked_rows && out->labels &&
            out->classes);
}

void model_batch_create(Batch *out, const size_t *lengths, size_t B, size_t vocab, uint64_t seed) {
    size_t total = 0;
    for (size_t b = 0; b < B; b++) total += lengths[b];
    batch_allocate(out, B, total);
    uint64_t key = rng_key(seed, RNG_TEST, 1, 0);
    for (size_t b = 0; b < B; b++) {
        out->start[b + 1] = out->start[b] + lengths[b];
        out->seq_key[b] = rng_u64(key, 3 * total + b);
        size_t always = out->start[b] + rng_below(key, 4 * total + b, lengths[b]);
        for (size_t i = out->start[b]; i < out->start[b + 1]; i++) {
            out->ids[i] = (uint32_t)rng_below(key, i, vocab);
            if (i != always && rng_below(key, total + i, 3) != 0) continue;
            out->masked_rows[out->masked] = (uint32_t)i;
            out->labels[out->masked++] = (uint32_t)rng_below(key, 2 * total + i, vocab);
        }
    }
}

void model_batch_classify(Batch *batch, size_t classes, uint64_t seed) {
    uint64_t key = rng_key(seed, RNG_TEST, 2, 0);
    for (size_t b = 0; b < batch->B; b++) batch->classes[b] = (uint32_t)rng_below(key, b, classes);
}

double model_batch_divisor(const Model *model, const Batch *batch) {
    return (double)(model->config.classes > 0 ? batch->B : batch->masked);
}

void batch_slice(Batch *out, const Batch *from, size_t first, size_t count) {
    size_t begin = from->start[first], end = from->start[first + count];
    batch_allocate(out, count, end - begin);
    for (size_t b = 0; b <= count; b++) out->start[b] = from->start[first + b] - begin;
    memcpy(out->ids, from->ids + begin, (end - begin) * sizeof *out->ids);
    memcpy(out->seq_key, from->seq_key + first, count * sizeof *out->seq_key);
    memcpy(out->classes, from->classes + first, count * sizeof *out->classes);
    for (size_t m = 0; m < from->masked; m++) {
        if (from->masked_rows[m] < begin || from->masked_rows[m] >= end) continue;
        out->masked_rows[out->masked] = from->masked_rows[m] - (uint32_t)begin;
        out->labels[out->masked++] = from->labels[m];
    }
}

void model_batch_destroy(Batch *batch) {
    free(batch->start);
    free(batch->ids);
    free(batch->seq_key);
    free(batch->masked_rows);
    free(batch->labels);
    free(batch->classes);
    *batch = (Batch){0};
}
