/* Gradients of the whole model against differences of its loss, in double. */
#include <stdio.h>

#include "encoder.h"
#include "harness.h"
#include "layer_keys.h"
#include "model_gradcheck.h"

static void require_both_orders(const ModelConfig *config) {
    Batch many = {.B = GRAD_B_LONG}, few = {.B = GRAD_B_SHORT};
    for (size_t b = 0; b < GRAD_B_LONG; b++) many.total += grad_lengths_long[b];
    for (size_t b = 0; b < GRAD_B_SHORT; b++) few.total += grad_lengths_short[b];
    CHECK_INT(few.total, GRAD_TOTAL_MOST);
    for (size_t l = 0; l < config->layers; l++) {
        CHECK(layer_compresses_first(config, l, many.B, many.total) ==
              (config->scope != SCOPE_HEAD));
        CHECK(!layer_compresses_first(config, l, few.B, few.total));
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
        snprintf(name, sizeof name, "%s, k %zu,%zu%s%s:", config_sharing_name(&config), config.k[0],
                 config.k[1], fixed ? " fixed" : "", pre ? " pre" : "");
        /* a frozen matrix only leaves a gradient out: one batch each, in turn */
        grad_check_model(&config, name,
                         !fixed           ? GRAD_BOTH
                         : uniform == pre ? GRAD_LONG
                                          : GRAD_SHORT);
    }
}

static void test_sharing(void) {
    grad_check_sharings(check_sharing);
}

static void test_full(void) {
    ModelConfig config = config_dropout();
    grad_check_full(&config);
}

static void test_one_layer(void) {
    for (size_t pre = 0; pre < 2; pre++) {
        ModelConfig config = config_dropout();
        config.layers = 1;
        config.norm = pre ? NORM_PRE : NORM_POST;
        grad_check_model(&config, pre ? "one layer, pre:" : "one layer:", GRAD_BOTH);
    }
}

/* k = 1 and k = n, the ends of the range; and no dropout. */
static void test_extreme_k(void) {
    ModelConfig config = model_config_tiny();
    config.k[0] = 1;
    config.k[1] = 11;
    grad_check_model(&config, "k 1,11:", GRAD_BOTH);
    config.scope = SCOPE_MODEL;
    config.tie_kv = true;
    grad_check_model(&config, "layerwise k 1,11:", GRAD_BOTH);
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
        ModelGrad c = {.name = full ? "n 260, full:" : "n 260:", .samples = 2};
        model_create(&c.model, &config, 2, 325, ACTS_TRAINING);
        model_randomize(&c.model, test_seed());
        for (size_t i = 0; i < c.model.table.count; i++) {
            const Tensor *t = &c.model.table.items[i];
            if (t->init != INIT_PROJECTION) continue;
            for (size_t j = 0; j < t->count; j++) c.model.weights[t->offset + j] *= (real)0.2;
        }
        grad_check_batch(&c, lengths, 2);
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
    {"sharing", test_sharing, TEST_DOUBLE},
    {"full", test_full, TEST_DOUBLE},
    {"one_layer", test_one_layer, TEST_DOUBLE},
    {"extreme_k", test_extreme_k, TEST_DOUBLE},
    {"long_sequences", test_long_sequences, TEST_DOUBLE},
    {0},
};
