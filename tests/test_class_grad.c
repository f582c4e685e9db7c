/* Gradients of the whole classifier, encoder and head, against differences of its loss, in
 * double. */
#include <stdio.h>

#include "harness.h"
#include "model_gradcheck.h"

/* Unlike every other size of the model. */
enum { CLASSES = 7 };

static ModelConfig config_classifier(void) {
    ModelConfig config = model_config_tiny();
    config.classes = CLASSES;
    config.dropout = 0.15;
    config.attention_dropout = 0.2;
    config.head_dropout = 0.25;
    return config;
}

/* Both places of the LayerNorms and both orders of k, for one way of sharing. */
static void check_sharing(Scope scope, bool tie_kv) {
    for (size_t i = 0; i < 2; i++) {
        ModelConfig config = config_classifier();
        config.scope = scope;
        config.tie_kv = tie_kv;
        config.norm = i ? NORM_PRE : NORM_POST;
        config.k[0] = i ? 3 : 5;
        config.k[1] = i ? 5 : 3;
        char name[64];
        snprintf(name, sizeof name, "%s, %s:", config_sharing_name(&config), i ? "pre" : "post");
        grad_check_model(&config, name, GRAD_BOTH);
    }
}

static void test_sharing(void) {
    grad_check_sharings(check_sharing);
}

static void test_full(void) {
    ModelConfig config = config_classifier();
    grad_check_full(&config);
}

static void test_fixed(void) {
    ModelConfig config = config_classifier();
    config.projection = PROJECTION_FIXED;
    grad_check_model(&config, "fixed:", GRAD_LONG);
}

static void test_mean_pooling(void) {
    ModelConfig config = config_classifier();
    config.head_pooling = HEAD_POOLING_MEAN;
    grad_check_model(&config, "mean:", GRAD_BOTH);
}

/* Two classes, one layer, and dropout in the head alone or nowhere. */
static void test_two_classes(void) {
    for (size_t i = 0; i < 2; i++) {
        ModelConfig config = model_config_tiny();
        config.classes = 2;
        config.layers = 1;
        config.head_dropout = i ? 0.25 : 0;
        grad_check_model(&config, i ? "head dropout:" : "no dropout:", GRAD_BOTH);
    }
}

const Test tests_class_grad[] = {
    {"sharing", test_sharing, TEST_DOUBLE},
    {"full", test_full, TEST_DOUBLE},
    {"fixed", test_fixed, TEST_DOUBLE},
    {"mean_pooling", test_mean_pooling, TEST_DOUBLE},
    {"two_classes", test_two_classes, TEST_DOUBLE},
    {0},
};
