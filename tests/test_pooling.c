/* Whole models that pool windows of tokens: gradients against differences of the loss, and what
 * such models are equal to. */
#include <stdio.h>

#include "encoder.h"
#include "harness.h"
#include "layer_keys.h"
#include "model_gradcheck.h"
#include "pool_project.h"

/* As in test_encoder.c: two ways of computing the same thing. */
#ifdef REAL_IS_DOUBLE
static const double TOL = 1e-12, TOL_GRAD = 1e-11;
#else
static const double TOL = 5e-6, TOL_GRAD = 5e-5;
#endif

enum { C = 12, N = 11 };

static ModelConfig config_pooling(Projection projection, size_t k0, size_t k1) {
    ModelConfig config = model_config_tiny();
    config.projection = projection;
    config.k[0] = k0;
    config.k[1] = k1;
    return config;
}

/* ---- gradients, in double */

static void set_dropout(ModelConfig *config) {
    config->dropout = 0.15;
    config->attention_dropout = 0.2;
}

/* Both batches, post and pre-norm in turn. */
static void check_grads(ModelConfig config, size_t i) {
    char name[80];
    config.norm = i % 2 ? NORM_PRE : NORM_POST;
    snprintf(name, sizeof name, "k %zu,%zu scope %d%s:", config.k[0], config.k[1],
             (int)config.scope, config.tie_kv ? " tied" : "");
    grad_check_model(&config, name, GRAD_BOTH);
}

/* Lengths k of either layer that leave windows of two widths, one and all positions a window. */
static const size_t heights[][2] = {{4, 3}, {5, 7}, {11, 2}, {1, 4}};
enum { HEIGHTS = 4 };

static void test_mean(void) {
    for (size_t i = 0; i < HEIGHTS; i++) {
        ModelConfig config = config_pooling(PROJECTION_MEAN, heights[i][0], heights[i][1]);
        set_dropout(&config);
        config.scope = (Scope)(i % 3); /* means nothing here */
        check_grads(config, i);
    }
}

/* The smaller of *least and the least distance of a maximum from the next largest of its window. */
static double least_lead(double least, const real *x, const Batch *batch, size_t k) {
    for (size_t b = 0; b < batch->B; b++) {
        size_t T = batch->start[b + 1] - batch->start[b];
        for (size_t r = 0; r < pool_rows(T, k, N); r++) {
            size_t begin = r * N / k, end = (r + 1) * N / k < T ? (r + 1) * N / k : T;
            for (size_t c = 0; c < C; c++) {
                const real *column = x + batch->start[b] * C + c;
                double first = -INFINITY, second = -INFINITY;
                for (size_t t = begin; t < end; t++) {
                    double v = (double)column[t * C];
                    second = fmax(second, fmin(first, v));
                    first = fmax(first, v);
                }
                least = fmin(least, first - second);
            }
        }
    }
    return least;
}

/* Weights at which no step of the differences brings another token to the maximum. */
static void randomize_apart(Model *m, const Batch *batch) {
    for (uint64_t draw = 0; draw < 10000; draw++) {
        double least = INFINITY;
        model_randomize(m, test_seed() + draw);
        model_loss(m, batch);
        for (size_t l = 0; l < m->config.layers; l++) {
            least = least_lead(least, m->acts.layers[l].k_pre, batch, m->config.k[l]);
            least = least_lead(least, m->acts.layers[l].v_pre, batch, m->config.k[l]);
        }
        if (least > 3e-3) return;
    }
    test_fail(__FILE__, __LINE__, "no weights keep the values apart");
}

static void test_max(void) {
    const size_t lengths[] = {11, 1, 5, 8};
    Batch batch;
    for (size_t i = 0; i < HEIGHTS; i++) {
        ModelConfig config = config_pooling(PROJECTION_MAX, heights[i][0], heights[i][1]);
        set_dropout(&config);
        config.norm = i % 2 ? NORM_PRE : NORM_POST;
        char name[80];
        snprintf(name, sizeof name, "k %zu,%zu:", config.k[0], config.k[1]);
        ModelGrad c = {.name = name, .samples = 12};
        model_create(&c.model, &config, 4, 25, ACTS_TRAINING);
        model_batch_create(&batch, lengths, 4, config.vocab, test_seed());
        randomize_apart(&c.model, &batch);
        grad_check_batch(&c, lengths, 4);
        model_batch_destroy(&batch);
        model_destroy(&c.model);
    }
}

static void check_conv(Scope scope, bool tie_kv) {
    for (size_t i = 0; i < HEIGHTS; i++) {
        ModelConfig config = config_pooling(PROJECTION_CONV, heights[i][0], heights[i][1]);
        set_dropout(&config);
        config.scope = scope;
        config.tie_kv = tie_kv;
        check_grads(config, i);
    }
}

static void test_conv_none(void) {
    check_conv(SCOPE_HEAD, false);
}
static void test_conv_head_tied(void) {
    check_conv(SCOPE_HEAD, true);
}
static void test_conv_headwise(void) {
    check_conv(SCOPE_LAYER, false);
}
static void test_conv_kv(void) {
    check_conv(SCOPE_LAYER, true);
}
static void test_conv_model_untied(void) {
    check_conv(SCOPE_MODEL, false);
}
static void test_conv_layerwise(void) {
    check_conv(SCOPE_MODEL, true);
}

/* A classifier, and windows of one width: k divides n. */
static void test_classifiers(void) {
    for (Projection p = PROJECTION_MEAN; p <= PROJECTION_CONV; p++) {
        if (p == PROJECTION_MAX) continue;
        ModelConfig config = config_pooling(p, 4, 6);
        config.n = 12;
        config.classes = 7;
        config.head_dropout = 0.25;
        grad_check_model(&config, p == PROJECTION_MEAN ? "mean:" : "conv:", GRAD_BOTH);
    }
}

/* ---- equalities */

/* Loss, hidden states and gradients of the tensors that both models have. */
static void check_same_model(Model *a, Model *b, const Batch *batch) {
    model_zero_grads(a);
    model_zero_grads(b);
    double loss = model_backward(b, batch, 1);
    CHECK_CLOSE(model_backward(a, batch, 1) / loss, 1, TOL);
    CHECK_ARRAY_CLOSE(a->acts.hidden, b->acts.hidden, batch->total * a->config.width, TOL);
    for (size_t i = 0; i < a->table.count; i++) {
        const Tensor *t = &a->table.items[i];
        if (t->init == INIT_PROJECTION || strstr(t->name, ".k_b")) continue; /* zero, or nearly */
        CHECK_MSG(array_error(a->grads + t->offset, model_grad(b, t->name), t->count) <= TOL_GRAD,
                  "gradient of %s: error %.2e", t->name,
                  array_error(a->grads + t->offset, model_grad(b, t->name), t->count));
    }
}

/* k = n: every window is one token, whatever the length of the sequence, and a convolution of one
 * tap 1 copies it. */
static void test_one_token_a_window_is_full_attention(void) {
    const size_t lengths[] = {N, 1, 6, 2};
    Batch batch;
    model_batch_create(&batch, lengths, 4, 37, test_seed());
    for (size_t i = 0; i < 10; i++) {
        ModelConfig config = config_pooling(i < 2   ? PROJECTION_MEAN
                                            : i < 4 ? PROJECTION_MAX
                                                    : PROJECTION_CONV,
                                            N, N);
        set_dropout(&config);
        config.norm = i % 2 ? NORM_PRE : NORM_POST;
        config.scope = (Scope)(i % 3);
        config.tie_kv = i % 2;
        Model pools, full;
        model_create(&pools, &config, 4, 20, ACTS_TRAINING);
        config.attention = ATTENTION_FULL;
        model_create(&full, &config, 4, 20, ACTS_TRAINING);
        for (size_t t = 0; t < pools.table.count; t++) {
            const Tensor *tensor = &pools.table.items[t];
            if (tensor->init != INIT_PROJECTION) continue;
            for (size_t j = 0; j < tensor->count; j++) pools.weights[tensor->offset + j] = 1;
        }
        check_same_model(&pools, &full, &batch);
        model_destroy(&full);
        model_destroy(&pools);
    }
    model_batch_destroy(&batch);
}

/* Sets the rows of every E and F to what the model that pools does with sequences of n tokens: a
 * mean where taps is NULL, or taps[j] at the j-th position of a window. */
static void set_windows(Model *linear, const real *taps) {
    for (size_t l = 0; l < linear->config.layers; l++) {
        size_t k = linear->config.k[l];
        real *const matrices[] = {linear->params.layers[l].seq_proj_k,
                                  linear->params.layers[l].seq_proj_v};
        for (size_t m = 0; m < 2; m++) {
            memset(matrices[m], 0, k * N * sizeof(real));
            for (size_t r = 0; r < k; r++) {
                size_t begin = r * N / k, end = (r + 1) * N / k;
                for (size_t i = begin; i < end; i++)
                    matrices[m][r * N + i] = taps ? taps[i - begin] : 1 / (real)(end - begin);
            }
        }
    }
}

/* Sequences of n tokens only: of a shorter one `linear` has rows of zeros where windows have none.
 * `conv` with the same taps for all columns and heads. */
static void test_equals_linear(void) {
    const size_t lengths[] = {N, N, N};
    Batch batch;
    model_batch_create(&batch, lengths, 3, 37, test_seed());
    for (size_t i = 0; i < 4; i++) {
        bool conv = i % 2;
        ModelConfig config = config_pooling(conv ? PROJECTION_CONV : PROJECTION_MEAN, 4, 3);
        config.norm = i / 2 ? NORM_PRE : NORM_POST;
        set_dropout(&config);
        Model pools, linear;
        model_create(&pools, &config, 3, 3 * N, ACTS_TRAINING);
        config.projection = PROJECTION_LINEAR;
        model_create(&linear, &config, 3, 3 * N, ACTS_TRAINING);
        const real taps[] = {(real)0.5, -1, (real)0.75, (real)1.25};
        set_windows(&linear, conv ? taps : NULL);
        for (size_t l = 0; l < 2 && conv; l++) {
            for (size_t j = 0; j < pool_taps(config.k[l], N) * C / 3; j++) {
                pools.params.layers[l].seq_proj_k[j] = taps[j / (C / 3)];
                pools.params.layers[l].seq_proj_v[j] = taps[j / (C / 3)];
            }
        }
        check_same_model(&pools, &linear, &batch);
        model_destroy(&linear);
        model_destroy(&pools);
    }
    model_batch_destroy(&batch);
}

/* Taps of a model whose heads have their own, from those that the shared model's heads share, or
 * the sum of their gradients. */
static void between_taps(Model *own, Model *shared, bool gather) {
    const ModelConfig *config = &shared->config;
    for (size_t l = 0; l < 2; l++) {
        size_t set = pool_taps(config->k[l], N) * (C / config->heads);
        for (size_t h = 0; h < config->heads; h++) {
            for (size_t j = 0; j < set; j++) {
                size_t at = config->scope == SCOPE_HEAD ? h * set + j : j, from = h * set + j;
                LayerParams *w = &own->params.layers[l], *g = &shared->d_params.layers[l];
                if (!gather) {
                    w->seq_proj_k[from] = shared->params.layers[l].seq_proj_k[at];
                    w->seq_proj_v[from] = shared->params.layers[l].seq_proj_v[at];
                } else {
                    g->seq_proj_k[at] += own->d_params.layers[l].seq_proj_k[from];
                    g->seq_proj_v[at] += own->d_params.layers[l].seq_proj_v[from];
                }
            }
        }
    }
}

/* A convolution without sharing whose taps are equal is the shared one, and the gradient of shared
 * taps is the sum over their copies; one set for the whole model has as many taps as the layer of
 * the smallest k needs, and the other layer uses the first. */
static void test_shared_taps(void) {
    const size_t lengths[] = {N, 2, 10, 5, 1, 6};
    Batch batch;
    model_batch_create(&batch, lengths, 6, 37, test_seed());
    for (size_t i = 1; i < 6; i++) {
        ModelConfig config = config_pooling(PROJECTION_CONV, i % 2 ? 5 : 3, i % 2 ? 3 : 5);
        set_dropout(&config);
        config.scope = (Scope)(i / 2);
        config.tie_kv = i % 2;
        Model shared, own, sum;
        model_create(&shared, &config, 6, 35, ACTS_TRAINING);
        model_create(&sum, &config, 6, 35, ACTS_TRAINING);
        config.scope = SCOPE_HEAD;
        config.tie_kv = false;
        model_create(&own, &config, 6, 35, ACTS_TRAINING);
        between_taps(&own, &shared, false);
        check_same_model(&shared, &own, &batch);
        between_taps(&own, &sum, true);
        size_t found = 0;
        for (size_t t = 0; t < shared.table.count; t++) {
            const Tensor *tensor = &shared.table.items[t];
            if (tensor->init != INIT_PROJECTION) continue;
            CHECK_MSG(array_error(shared.grads + tensor->offset, sum.grads + tensor->offset,
                                  tensor->count) <= TOL_GRAD,
                      "gradient of %s", tensor->name);
            found += tensor->count;
        }
        size_t all = (4 + 3) * (C / 3); /* taps of k = 3 and k = 5 */
        if (shared.config.scope == SCOPE_HEAD) all *= 3;
        if (shared.config.scope == SCOPE_MODEL) all = 4 * (C / 3);
        CHECK_INT(found, shared.config.tie_kv ? all : 2 * all);
        model_destroy(&own);
        model_destroy(&sum);
        model_destroy(&shared);
    }
    model_batch_destroy(&batch);
}

/* Windows without a token have no key, so a sequence costs and gets what its own tokens make. */
static void test_keys_of_short_sequences(void) {
    for (Projection p = PROJECTION_LINEAR; p <= PROJECTION_CONV; p++) {
        ModelConfig config = config_pooling(p, 4, N);
        bool pools = p >= PROJECTION_MEAN;
        CHECK_INT(layer_key_rows(&config, 0, 1), pools ? 1 : 4);
        CHECK_INT(layer_key_rows(&config, 0, 3), pools ? 2 : 4);
        CHECK_INT(layer_key_rows(&config, 0, N), 4);
        CHECK_INT(layer_key_rows(&config, 1, 3), pools ? 3 : N);
        config.attention = ATTENTION_FULL;
        CHECK_INT(layer_key_rows(&config, 0, 3), 3);
    }
}

const Test tests_pooling[] = {
    {"mean_grad", test_mean, TEST_DOUBLE},
    {"max_grad", test_max, TEST_DOUBLE},
    {"conv_none_grad", test_conv_none, TEST_DOUBLE},
    {"conv_head_tied_grad", test_conv_head_tied, TEST_DOUBLE},
    {"conv_headwise_grad", test_conv_headwise, TEST_DOUBLE},
    {"conv_kv_grad", test_conv_kv, TEST_DOUBLE},
    {"conv_model_untied_grad", test_conv_model_untied, TEST_DOUBLE},
    {"conv_layerwise_grad", test_conv_layerwise, TEST_DOUBLE},
    {"classifiers_grad", test_classifiers, TEST_DOUBLE},
    {"one_token_a_window_is_full_attention", test_one_token_a_window_is_full_attention, 0},
    {"equals_linear", test_equals_linear, 0},
    {"shared_taps", test_shared_taps, 0},
    {"keys_of_short_sequences", test_keys_of_short_sequences, 0},
    {0},
};
