#include "../src/lab/stored_attention.h"

#include <stdlib.h>

#include "harness.h"
#include "model_fixture.h"
#include "rng.h"
#include "tensors.h"
#include "threads.h"

/* Both kernels on the same ragged batch of B sequences: outputs and gradients. */
static void check_shape(const size_t *T, const size_t *keys, size_t B, size_t H, size_t D,
                        double p) {
    size_t C = H * D, n = 0;
    uint64_t *seq_key = tensors_take(B, sizeof *seq_key);
    AttentionShape s = {.B = B, .H = H, .D = D, .layer = 1, .p = p, .seq_key = seq_key};
    s.start = tensor_starts(T, B);
    s.key_start = tensor_starts(keys, B);
    for (size_t b = 0; b < B; b++) {
        seq_key[b] = rng_key(test_seed(), RNG_DROPOUT, 5, b);
        n = T[b] > n ? T[b] : n;
        n = keys[b] > n ? keys[b] : n;
    }
    size_t rows = s.start[B] * C, cols = s.key_start[B] * C;
    real *q = tensor_normal(rows, 2), *k = tensor_normal(cols, 1), *v = tensor_normal(cols, 1),
         *d_out = tensor_normal(rows, 1), *out = tensor_filled(rows, NAN),
         *lse = tensor_filled(s.start[B] * H, NAN), *d_q = tensor_filled(rows, NAN),
         *d_k = tensor_filled(cols, NAN), *d_v = tensor_filled(cols, NAN),
         *scratch = tensor_filled(attention_scratch(), NAN);
    attention_forward(out, lse, q, k, v, &s, scratch);
    attention_backward(d_q, d_k, d_v, d_out, q, k, v, out, lse, &s, scratch);

    const ModelConfig config = {.n = n, .heads = H, .layers = 2};
    StoredAttention stored;
    Err err = {0};
    if (!CHECK_MSG(stored_attention_create(&stored, &config, B, ACTS_TRAINING, &err), "%s",
                   err.msg))
        return;
    real *out2 = tensor_filled(rows, NAN), *d_q2 = tensor_filled(rows, NAN),
         *d_k2 = tensor_filled(cols, NAN), *d_v2 = tensor_filled(cols, NAN);
    stored.kernel.forward(stored.kernel.context, out2, q, k, v, &s);
    stored.kernel.backward(stored.kernel.context, d_q2, d_k2, d_v2, d_out, q, k, v, &s);
    const double tol = 2 * KERNEL_TOL; /* each side may be off by one */
    CHECK_ARRAY_CLOSE(out2, out, rows, tol);
    CHECK_ARRAY_CLOSE(d_q2, d_q, rows, tol);
    CHECK_ARRAY_CLOSE(d_k2, d_k, cols, tol);
    CHECK_ARRAY_CLOSE(d_v2, d_v, cols, tol);
    stored_attention_destroy(&stored);
    tensors_free();
}

/* Outputs and gradients are those of the block-wise kernel, dropout included: more rows than one
 * dropout key has, more keys than a block, one token, fewer keys than queries. */
static void test_equals_blockwise(void) {
    const size_t T[] = {1100, 1, 65, 130}, few[] = {7, 7, 7, 7};
    for (size_t threads = 1; threads <= 3; threads += 2) {
        threads_set(threads);
        for (int p = 0; p < 2; p++) {
            check_shape(T, T, 4, 2, 5, 0.2 * p);
            check_shape(T, few, 4, 3, 8, 0.2 * p);
        }
    }
}

static ModelConfig config_full(void) {
    ModelConfig config = model_config_tiny();
    config.attention = ATTENTION_FULL;
    config.dropout = config.attention_dropout = 0.1;
    return config;
}

/* A whole model, two layers, forward and backward. */
static void test_in_model(void) {
    const ModelConfig config = config_full();
    const size_t lengths[] = {config.n, 1, config.n - 2};
    size_t total = 2 * config.n - 1;
    Batch batch;
    Model blockwise, with_stored;
    StoredAttention stored;
    Err err = {0};
    model_batch_create(&batch, lengths, 3, config.vocab, 4);
    model_create(&blockwise, &config, 3, total, ACTS_TRAINING);
    model_create(&with_stored, &config, 3, total, ACTS_TRAINING);
    model_randomize(&blockwise, 5);
    model_copy_weights(&with_stored, &blockwise);
    REQUIRE(stored_attention_create(&stored, &config, 3, ACTS_TRAINING, &err));
    with_stored.acts.kernel = &stored.kernel;
    double divisor = model_batch_divisor(&blockwise, &batch);
    double want = model_backward(&blockwise, &batch, 1 / divisor);
    CHECK_CLOSE(model_backward(&with_stored, &batch, 1 / divisor) / want, 1, 1e-6);
    check_grads_equal(&with_stored, &blockwise, 1e-2, sizeof(real) == sizeof(float) ? 1e-4 : 1e-10);
    stored_attention_destroy(&stored);
    model_destroy(&blockwise);
    model_destroy(&with_stored);
    model_batch_destroy(&batch);
}

/* Bytes that the sanitizer build's arena leaves behind its blocks. */
enum { GAPS = 256 };

/* One layer's probabilities in inference, those of all layers and a scratch a thread in training;
 * every layer has its own. */
static void test_memory(void) {
    const ModelConfig config = {.n = 48, .heads = 3, .layers = 4};
    size_t bytes, square = 48 * 48 * sizeof(real);
    threads_set(2);
    REQUIRE(stored_attention_bytes(&bytes, &config, 5, ACTS_INFERENCE));
    CHECK_CLOSE((double)bytes, 5.0 * 3 * (double)square, GAPS);
    REQUIRE(stored_attention_bytes(&bytes, &config, 5, ACTS_TRAINING));
    CHECK_CLOSE((double)bytes, (4.0 * 5 * 3 + 2) * (double)square, GAPS);
    const ModelConfig huge = {.n = (size_t)1 << 31, .heads = 12, .layers = 4};
    CHECK(!stored_attention_bytes(&bytes, &huge, 5, ACTS_TRAINING));
    StoredAttention stored;
    Err err = {0};
    CHECK(!stored_attention_create(&stored, &huge, 5, ACTS_TRAINING, &err));
    CHECK_STR_CONTAINS(err.msg, "address space");
    CHECK_INT(err.code, ERR_CONFIG);
}

const Test tests_stored_attention[] = {
    {"equals_blockwise", test_equals_blockwise, 0},
    {"in_model", test_in_model, 0},
    {"memory", test_memory, 0},
    {0},
};
