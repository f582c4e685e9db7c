/* What the backward pass computes again must be what it would have kept. */
#include <stdio.h>
#include <string.h>

#include "harness.h"
#include "model_fixture.h"
#include "model_gradcheck.h"
#include "plan.h"

enum { VARIANTS = 14 + 2 * MODEL_POOLINGS, LAYERS = 3 };

/* All six sharings, full attention and poolings, post and pre-norm; layers of different k, dropout
 * on. */
static ModelConfig config_variant(size_t i) {
    ModelConfig config = model_config_tiny();
    config.layers = LAYERS;
    config.k[0] = 3;
    config.k[1] = 5;
    config.k[2] = 4;
    config.dropout = 0.15;
    config.attention_dropout = 0.2;
    config.norm = i % 2 ? NORM_PRE : NORM_POST;
    config.scope = (Scope)(i / 2 % 3);
    config.tie_kv = i / 6 % 2;
    if (i == 12 || i == 13) config.attention = ATTENTION_FULL;
    if (i > 13) model_set_pooling(&config, (i - 14) / 2);
    return config;
}

/* Two batches, so that shared buffers hold something of before. */
static void backward_both(Model *m, double *losses) {
    Batch batch;
    model_zero_grads(m);
    model_batch_create(&batch, grad_lengths_short, GRAD_B_SHORT, m->config.vocab, test_seed());
    losses[0] = model_backward(m, &batch, 0.25);
    model_batch_destroy(&batch);
    model_batch_create(&batch, grad_lengths_long, GRAD_B_LONG, m->config.vocab, test_seed() + 1);
    losses[1] = model_backward(m, &batch, 0.5);
    model_batch_destroy(&batch);
}

static void check_same_bits(ModelConfig config, Recompute recompute, size_t threads) {
    Model kept, again;
    double kept_losses[2], losses[2];
    model_create_threads(&kept, &config, GRAD_B_SHORT, GRAD_TOTAL_MOST, ACTS_TRAINING, threads);
    config.recompute = recompute;
    model_create_threads(&again, &config, GRAD_B_SHORT, GRAD_TOTAL_MOST, ACTS_TRAINING, threads);
    backward_both(&kept, kept_losses);
    backward_both(&again, losses);
    CHECK_CLOSE(losses[0], kept_losses[0], 0);
    CHECK_CLOSE(losses[1], kept_losses[1], 0);
    for (size_t i = 0; i < kept.table.count; i++) {
        const Tensor *t = &kept.table.items[i];
        CHECK_MSG(!memcmp(again.grads + t->offset, kept.grads + t->offset, t->count * sizeof(real)),
                  "recompute %d: another gradient of %s", (int)recompute, t->name);
    }
    CHECK(kept.acts.layers[0].ff_pre != kept.acts.layers[1].ff_pre);
    CHECK(again.acts.layers[0].ff_pre == again.acts.layers[1].ff_pre);
    CHECK((again.acts.layers[0].q == again.acts.layers[1].q) == (recompute == RECOMPUTE_LAYER));
    model_destroy(&again);
    model_destroy(&kept);
}

static void test_gradients_are_the_same_bits(void) {
    for (size_t i = 0; i < VARIANTS; i++) {
        for (int r = RECOMPUTE_FFN; r <= RECOMPUTE_LAYER; r++) {
            check_same_bits(config_variant(i), (Recompute)r, 1);
            if (i < 2 || i > 13) check_same_bits(config_variant(i), (Recompute)r, 2);
        }
    }
}

static size_t bytes_of(ModelConfig config, Recompute recompute) {
    size_t bytes = 0;
    config.recompute = recompute;
    REQUIRE(activations_bytes(&bytes, &config, 3, 30, ACTS_TRAINING, NULL));
    return bytes;
}

/* ffn keeps one ff_pre instead of one a layer; layer keeps less in every variant; an inference
 * shares everything anyway. */
static void test_memory(void) {
    for (size_t i = 0; i < VARIANTS; i++) {
        ModelConfig config = config_variant(i);
        size_t none = bytes_of(config, RECOMPUTE_NONE), ffn = bytes_of(config, RECOMPUTE_FFN);
        size_t ff_pre = 30 * config.ffn * sizeof(real);
        CHECK_CLOSE((double)(none - ffn), (double)(LAYERS - 1) * (double)ff_pre,
                    (LAYERS - 1) * 2 * ARENA_ALIGN);
        CHECK(bytes_of(config, RECOMPUTE_LAYER) < ffn);
        size_t inference[2];
        REQUIRE(activations_bytes(&inference[0], &config, 3, 30, ACTS_INFERENCE, NULL));
        config.recompute = RECOMPUTE_LAYER;
        REQUIRE(activations_bytes(&inference[1], &config, 3, 30, ACTS_INFERENCE, NULL));
        CHECK_INT(inference[0], inference[1]);
    }
}

/* Operations done again: those of ff1, or of the attention block too, of all layers but the last,
 * whose buffers still hold what the forward pass left. */
static void test_operations(void) {
    double done[3] = {0}, rows = 0;
    for (int r = RECOMPUTE_NONE; r <= RECOMPUTE_LAYER; r++) {
        ModelConfig config = config_variant(0);
        config.recompute = (Recompute)r;
        Model m;
        Batch batch;
        Profile profile = {0};
        model_create(&m, &config, GRAD_B_LONG, GRAD_TOTAL_MOST, ACTS_TRAINING);
        model_batch_create(&batch, grad_lengths_long, GRAD_B_LONG, config.vocab, test_seed());
        m.acts.profile = &profile;
        model_backward(&m, &batch, 1);
        for (size_t i = 0; i < PROFILE_PARTS; i++) done[r] += profile.parts[i].operations;
        rows = (double)batch.total;
        model_batch_destroy(&batch);
        model_destroy(&m);
    }
    ModelConfig config = config_variant(0);
    config.layers = LAYERS - 1; /* those that are computed again, without their second half */
    double ffn = (LAYERS - 1) * 2 * rows * (double)(config.width * config.ffn);
    double layers = plan_forward_flops(&config, grad_lengths_long, GRAD_B_LONG, 0);
    CHECK_CLOSE(done[RECOMPUTE_FFN] - done[RECOMPUTE_NONE], ffn, 0);
    CHECK_CLOSE(done[RECOMPUTE_LAYER] - done[RECOMPUTE_NONE], layers - ffn, 0);
}

/* Against differences of the loss, in double. */
static void test_gradients(void) {
    for (int r = RECOMPUTE_FFN; r <= RECOMPUTE_LAYER; r++) {
        static const size_t variants[] = {2, 3, 12, 13, 14, 15, 20, 21}; /* no maxima: they jump */
        for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
            ModelConfig config = config_variant(variants[i]);
            config.recompute = (Recompute)r;
            char name[64];
            snprintf(name, sizeof name, "recompute %d, variant %zu:", r, i);
            grad_check_model(&config, name, i % 2 ? GRAD_SHORT : GRAD_LONG);
        }
    }
}

const Test tests_recompute[] = {
    {"gradients_are_the_same_bits", test_gradients_are_the_same_bits, 0},
    {"memory", test_memory, 0},
    {"operations", test_operations, 0},
    {"gradients", test_gradients, TEST_DOUBLE},
    {0},
};
