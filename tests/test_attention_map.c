#include "attention_map.h"

#include "encoder.h"
#include "harness.h"
#include "model_fixture.h"
#include "tensors.h"

/* softmax(q k^T / sqrt(D)) of one head in double. */
static void map_by_hand(double *p, const real *q, const real *k, size_t T, size_t keys, size_t C,
                        size_t D, size_t h) {
    for (size_t t = 0; t < T; t++) {
        double sum = 0;
        for (size_t j = 0; j < keys; j++) {
            double dot = 0;
            for (size_t d = 0; d < D; d++)
                dot += (double)q[t * C + h * D + d] * (double)k[j * C + h * D + d];
            sum += p[t * keys + j] = exp(dot / sqrt((double)D));
        }
        for (size_t j = 0; j < keys; j++) p[t * keys + j] /= sum;
    }
}

static void test_by_hand(void) {
    enum { T = 13, KEYS = 7, H = 3, D = 5, C = H * D };
    real *q = tensor_normal(T * C, 1.5), *k = tensor_normal(KEYS * C, 1.5),
         *p = tensor_filled(T * KEYS, NAN);
    double *want = tensors_take(T * KEYS, sizeof *want);
    for (size_t h = 0; h < H; h++) {
        attention_map(p, q, k, T, KEYS, C, D, h);
        map_by_hand(want, q, k, T, KEYS, C, D, h);
        CHECK_TENSOR(p, want, T * KEYS, KERNEL_TOL);
        for (size_t t = 0; t < T; t++) {
            double sum = 0;
            for (size_t j = 0; j < KEYS; j++) sum += (double)p[t * KEYS + j];
            CHECK_CLOSE(sum, 1, 1e-6);
        }
    }
    tensors_free();
}

/* Scores of some hundreds, where exp alone would overflow. */
static void test_large_scores(void) {
    enum { T = 3, KEYS = 4, C = 2 };
    real *q = tensor_filled(T * C, 30), *k = tensor_filled(KEYS * C, 30), p[T * KEYS];
    k[2 * C] = 29;
    attention_map(p, q, k, T, KEYS, C, C, 0);
    for (size_t t = 0; t < T; t++) {
        CHECK_CLOSE(p[t * KEYS], 1. / 3, 1e-6);
        CHECK_CLOSE(p[t * KEYS + 2], exp(-30 / sqrt(2.)) / 3, 1e-12);
    }
    tensors_free();
}

/* p times the values is what the attention kernel gave in a forward pass of the model. */
static void check_output(const ModelConfig *config) {
    static const size_t lengths[] = {11, 2, 9}; /* one that is short to some of the models */
    size_t C = config->width, D = C / config->heads;
    Model model;
    Batch batch;
    model_create(&model, config, 3, 24, ACTS_TRAINING);
    model.acts.wants_keys = true;
    model_batch_create(&batch, lengths, 3, config->vocab, 5);
    encoder_forward(&model.acts, &model.params, config, &batch);
    for (size_t l = 0; l < config->layers; l++) {
        const LayerActs *acts = &model.acts.layers[l];
        double *want = tensors_take(batch.total * C, sizeof *want);
        for (size_t unit = 0; unit < batch.B * config->heads; unit++) {
            size_t b = unit / config->heads, h = unit % config->heads, at = batch.start[b];
            bool full = config->attention == ATTENTION_FULL;
            size_t keys = full ? lengths[b] : config->k[l], from = full ? at : b * keys;
            real *p = tensor_filled(lengths[b] * keys, NAN);
            attention_map(p, acts->q + at * C, acts->kp + from * C, lengths[b], keys, C, D, h);
            for (size_t t = 0; t < lengths[b]; t++)
                for (size_t d = h * D; d < (h + 1) * D; d++)
                    for (size_t j = 0; j < keys; j++)
                        want[(at + t) * C + d] +=
                            (double)p[t * keys + j] * (double)acts->vp[(from + j) * C + d];
        }
        CHECK_TENSOR(acts->att_out, want, batch.total * C, KERNEL_TOL);
        tensors_free();
    }
    model_batch_destroy(&batch);
    model_destroy(&model);
}

static void test_gives_the_kernels_output(void) {
    ModelConfig config = model_config_tiny();
    for (Scope scope = SCOPE_HEAD; scope <= SCOPE_MODEL; scope++) {
        config.scope = scope;
        check_output(&config);
    }
    config.norm = NORM_PRE;
    config.tie_kv = true;
    check_output(&config);
    config.attention = ATTENTION_FULL;
    check_output(&config);
}

const Test tests_attention_map[] = {
    {"by_hand", test_by_hand, 0},
    {"large_scores", test_large_scores, 0},
    {"gives_the_kernels_output", test_gives_the_kernels_output, 0},
    {0},
};
