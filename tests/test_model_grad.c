/* Gradients of the whole model against differences of its loss, in double. */
#include <stdio.h>

#include "../src/model/projected_kv.h"
#include "gradcheck.h"
#include "harness.h"
#include "model_fixture.h"

/* The project's bound: the error of any gradient is at most 1e-7 of the tensor's largest. */
static const double TOLERANCE = 1e-7;

/* What the gradient blocks hold before the backward pass: it adds. */
static const real PREFILL = 0.25;

/* Lengths 1, 2, k-1, k, k+1, n-1, n for n = 11 and both k = 5 and k = 3.  In the first batch the
 * tokens outnumber the projected rows of every layer, so shared projections compress first; in
 * the second they don't. */
static const size_t lengths_long[] = {11, 1, 6, 2, 10, 5, 4, 3};
static const size_t lengths_short[] = {1, 11, 6, 1, 5, 4, 1, 1, 10, 3, 2, 1, 1, 1, 1, 1, 1};
enum { B_LONG = 8, B_SHORT = 17, TOTAL_MOST = 51 };

typedef struct Case {
    Model model;
    Batch batch;
    const char *name;
    size_t samples; /* elements tried of one tensor */
} Case;

static double case_loss(void *ctx) {
    Case *c = ctx;
    return model_loss(&c->model, &c->batch);
}

/* Gradients that are zero: of key biases in full attention, because adding a constant to all
 * scores of a row doesn't change its softmax (under a projection the constants differ by the row
 * sums of E); and of whatever makes the scores where k = 1. */
static bool gradient_vanishes(const Case *c, const Tensor *t) {
    static const char *const of_scores[] = {"q_w", "q_b", "k_w", "k_b", "seq_proj_k"};
    const ModelConfig *config = &c->model.config;
    if (strncmp(t->name, "layer", 5)) return false;
    const char *part = strchr(t->name, '.') + 1;
    if (config->attention == ATTENTION_FULL) return !strcmp(part, "k_b");
    if (config->k[t->name[5] - '0'] > 1) return false;
    for (size_t i = 0; i < sizeof of_scores / sizeof *of_scores; i++)
        if (!strcmp(part, of_scores[i])) return true;
    return false;
}

static void check_tensor(Case *c, const Tensor *t) {
    real *grad = c->model.grads + t->offset;
    char name[160];
    snprintf(name, sizeof name, "%s %s", c->name, t->name);
    if (t->frozen) {
        for (size_t i = 0; i < t->count; i++)
            if (!CHECK_MSG(grad[i] == PREFILL, "%s: frozen, but has a gradient", name)) return;
        return;
    }
    double largest = 0, loss = case_loss(c);
    for (size_t i = 0; i < t->count; i++) {
        grad[i] -= PREFILL;
        if (!CHECK_MSG(isfinite(grad[i]), "%s[%zu] is not finite", name, i)) return;
        largest = fmax(largest, fabs((double)grad[i]));
    }
    if (gradient_vanishes(c, t)) {
        CHECK_MSG(largest <= 1e-14, "%s: gradient %g instead of zero", name, largest);
    } else {
        /* above grad_close's floor: the error is then relative to the tensor's own gradient */
        CHECK_MSG(largest > 1e-4 * loss, "%s: largest gradient %g is too small to check", name,
                  largest);
    }
    /* a step at which truncation (curvature of two layers) and rounding of the loss both stay
     * below 3e-8 */
    GradCheck check = {.loss = case_loss, .ctx = c, .samples = c->samples, .step = 1e-4};
    CHECK(grad_close(&check, name, c->model.weights + t->offset, grad, t->count, TOLERANCE));
}

static void check_batch(Case *c, const size_t *lengths, size_t B) {
    Model *m = &c->model;
    model_batch_create(&c->batch, lengths, B, m->config.vocab, test_seed());
    for (size_t i = 0; i < m->table.count; i++)
        for (size_t j = 0; j < m->table.items[i].count; j++)
            m->grads[m->table.items[i].offset + j] = PREFILL;
    double loss = model_backward(m, &c->batch, 1 / (double)c->batch.masked);
    CHECK_CLOSE(loss, case_loss(c), 1e-14 * loss); /* the same sum, scaled before or after */
    for (size_t i = 0; i < m->table.count; i++) check_tensor(c, &m->table.items[i]);
    model_batch_destroy(&c->batch);
}

typedef enum Batches { LONG = 1, SHORT = 2, BOTH = LONG | SHORT } Batches;

static void check_model(const ModelConfig *config, const char *name, Batches batches) {
    Case c = {.name = name, .samples = 12};
    model_create(&c.model, config, B_SHORT, TOTAL_MOST, ACTS_TRAINING);
    model_randomize(&c.model, test_seed());
    if (batches & LONG) check_batch(&c, lengths_long, B_LONG);
    if (batches & SHORT) check_batch(&c, lengths_short, B_SHORT);
    model_destroy(&c.model);
}

static void require_both_orders(const ModelConfig *config) {
    Batch many = {.B = B_LONG}, few = {.B = B_SHORT};
    for (size_t b = 0; b < B_LONG; b++) many.total += lengths_long[b];
    for (size_t b = 0; b < B_SHORT; b++) few.total += lengths_short[b];
    CHECK_INT(few.total, TOTAL_MOST);
    for (size_t l = 0; l < config->layers; l++) {
        CHECK(projected_kv_compress_first(config, &many, l) == (config->scope != SCOPE_HEAD));
        CHECK(!projected_kv_compress_first(config, &few, l));
    }
}

static ModelConfig config_dropout(void) {
    ModelConfig config = model_config_tiny();
    config.dropout = 0.15;
    config.attention_dropout = 0.2;
    return config;
}

/* {uniform, nonuniform k} x {learned, fixed} x {post, pre}, for one way of sharing. */
static void check_sharing(Scope scope, bool tie_kv) {
    for (size_t i = 0; i < 8; i++) {
        bool uniform = i & 1, fixed = i & 2, pre = i & 4;
        ModelConfig config = config_dropout();
        config.scope = scope;
        config.tie_kv = tie_kv;
        /* the second layer's is the larger one: under model scope layer 0 takes a part */
        config.k[0] = uniform ? 4 : 3;
        config.k[1] = uniform ? 4 : 5;
        if (fixed) config.projection = PROJECTION_FIXED;
        if (pre) config.norm = NORM_PRE;
        char name[64];
        snprintf(name, sizeof name, "k %zu,%zu%s%s:", config.k[0], config.k[1],
                 fixed ? " fixed" : "", pre ? " pre" : "");
        /* a frozen matrix only leaves a gradient out: one batch each, in turn */
        check_model(&config, name, !fixed ? BOTH : uniform == pre ? LONG : SHORT);
    }
}

static void test_none(void) {
    check_sharing(SCOPE_HEAD, false);
}
static void test_headwise(void) {
    check_sharing(SCOPE_LAYER, false);
}
static void test_kv(void) {
    check_sharing(SCOPE_LAYER, true);
}
static void test_layerwise(void) {
    check_sharing(SCOPE_MODEL, true);
}
static void test_head_tied(void) {
    check_sharing(SCOPE_HEAD, true);
}
static void test_model_untied(void) {
    check_sharing(SCOPE_MODEL, false);
}

static void test_full(void) {
    for (size_t pre = 0; pre < 2; pre++) {
        ModelConfig config = config_dropout();
        config.attention = ATTENTION_FULL;
        config.norm = pre ? NORM_PRE : NORM_POST;
        check_model(&config, pre ? "full pre:" : "full:", BOTH);
    }
}

static void test_one_layer(void) {
    for (size_t pre = 0; pre < 2; pre++) {
        ModelConfig config = config_dropout();
        config.layers = 1;
        config.norm = pre ? NORM_PRE : NORM_POST;
        check_model(&config, pre ? "one layer, pre:" : "one layer:", BOTH);
    }
}

/* k = 1 and k = n, the ends of the range; and no dropout. */
static void test_extreme_k(void) {
    ModelConfig config = model_config_tiny();
    config.k[0] = 1;
    config.k[1] = 11;
    check_model(&config, "k 1,11:", BOTH);
    config.scope = SCOPE_MODEL;
    config.tie_kv = true;
    check_model(&config, "layerwise k 1,11:", BOTH);
}

/* Sequences that the attention kernel cuts into several blocks of queries and of keys.  Smaller
 * matrices: sums over so many tokens would curve too much for differences. */
static void test_long_sequences(void) {
    const size_t lengths[] = {260, 65};
    ModelConfig config = config_dropout();
    config.n = 260;
    config.k[0] = 9;
    config.k[1] = 258;
    for (size_t full = 0; full < 2; full++) {
        config.attention = full ? ATTENTION_FULL : ATTENTION_LINFORMER;
        Case c = {.name = full ? "n 260, full:" : "n 260:", .samples = 2};
        model_create(&c.model, &config, 2, 325, ACTS_TRAINING);
        model_randomize(&c.model, test_seed());
        for (size_t i = 0; i < c.model.table.count; i++) {
            const Tensor *t = &c.model.table.items[i];
            if (t->init != INIT_PROJECTION) continue;
            for (size_t j = 0; j < t->count; j++) c.model.weights[t->offset + j] *= (real)0.2;
        }
        check_batch(&c, lengths, 2);
        model_destroy(&c.model);
    }
}

static void test_orders_are_both_exercised(void) {
    for (size_t scope = SCOPE_HEAD; scope <= SCOPE_MODEL; scope++) {
        ModelConfig config = config_dropout();
        config.scope = (Scope)scope;
        require_both_orders(&config);
    }
}

const Test tests_model_grad[] = {
    {"orders_are_both_exercised", test_orders_are_both_exercised, 0},
    {"none", test_none, TEST_DOUBLE},
    {"headwise", test_headwise, TEST_DOUBLE},
    {"kv", test_kv, TEST_DOUBLE},
    {"layerwise", test_layerwise, TEST_DOUBLE},
    {"head_tied", test_head_tied, TEST_DOUBLE},
    {"model_untied", test_model_untied, TEST_DOUBLE},
    {"full", test_full, TEST_DOUBLE},
    {"one_layer", test_one_layer, TEST_DOUBLE},
    {"extreme_k", test_extreme_k, TEST_DOUBLE},
    {"long_sequences", test_long_sequences, TEST_DOUBLE},
    {0},
};
