/* Whole models whose linear maps multiply in mixed precision, beside the same models in fp32. */
#include <stdlib.h>

#include "encoder.h"
#include "harness.h"
#include "mlm_head.h"
#include "model_fixture.h"
#include "optimizer.h"
#include "tensors.h"

enum { B = 3, N = 48, TOTAL = 120 };

/* Wide enough that panels of 14 rows and 64 columns are more than their edges. */
static ModelConfig config_wide(void) {
    ModelConfig config = model_config_tiny();
    config.n = N;
    config.k[0] = config.k[1] = 16;
    config.width = 96;
    config.heads = 4;
    config.ffn = 160;
    config.vocab = 230;
    config.proj_init_std = 0.1;
    return config;
}

static void require_kind(Precision precision) {
    Err err = {0};
    if (!mixed_check(precision, &err)) test_skip("%s", err.msg);
}

static void batch_new(Batch *batch, const ModelConfig *config) {
    const size_t lengths[B] = {N, 31, TOTAL - N - 31};
    model_batch_create(batch, lengths, B, config->vocab, test_seed());
}

static double cosine(const real *a, const real *b, size_t count) {
    return tensor_dot(a, b, count) / sqrt(tensor_dot(a, a, count) * tensor_dot(b, b, count));
}

/* Weights as at the start of a training but three times as large, so that attention is neither even
 * nor a choice of one key: model_randomize's scores at this width are of 50 and more, where the
 * rounding of any factor decides between keys. */
static void init_weights(Model *m) {
    params_init(m->weights, &m->table, &m->config, test_seed());
    for (size_t t = 0; t < m->table.count; t++) {
        const Tensor *tensor = &m->table.items[t];
        if (tensor->init != INIT_NORMAL) continue;
        for (size_t i = 0; i < tensor->count; i++) m->weights[tensor->offset + i] *= 3;
    }
}

/* Loss and every tensor's gradient beside fp32's. */
static void check_gradients(Precision precision, double most_distance) {
    require_kind(precision);
    for (int variant = 0; variant < 6; variant++) {
        ModelConfig config = config_wide();
        Batch batch;
        Model fp32, mixed;
        config.norm = variant & 1 ? NORM_PRE : NORM_POST;
        if (variant & 2) config.attention = ATTENTION_FULL;
        if (variant & 4) model_set_pooling(&config, variant & 1 ? 0 : 2); /* mean, conv */
        batch_new(&batch, &config);
        model_create(&fp32, &config, B, TOTAL, ACTS_TRAINING);
        config.precision = precision;
        model_create(&mixed, &config, B, TOTAL, ACTS_TRAINING);
        init_weights(&fp32);
        init_weights(&mixed);
        double want = model_backward(&fp32, &batch, 1), got = model_backward(&mixed, &batch, 1);
        CHECK(got != want);
        CHECK_CLOSE(got / want, 1, 2e-3);
        for (size_t t = 0; t < fp32.table.count; t++) {
            const Tensor *tensor = &fp32.table.items[t];
            const real *a = mixed.grads + tensor->offset, *b = fp32.grads + tensor->offset;
            if (strstr(tensor->name, ".k_b") && !model_has_projections(&config))
                continue; /* zero: rounding only */
            CHECK_MSG(cosine(a, b, tensor->count) > 0.999 &&
                          tensor_distance(a, b, tensor->count) <= most_distance,
                      "variant %d, %s: cosine %.6f, distance %.4f", variant, tensor->name,
                      cosine(a, b, tensor->count), tensor_distance(a, b, tensor->count));
        }
        model_destroy(&fp32);
        model_destroy(&mixed);
        model_batch_destroy(&batch);
    }
}

static void test_gradients_bf16(void) {
    check_gradients(PRECISION_BF16, 0.03);
}

static void test_gradients_fp16(void) {
    check_gradients(PRECISION_FP16, 0.015);
}

/* A loss divided by any power of two, tokens of a large batch for example, has the same gradients
 * but for that power: nothing is lost for being small. */
static void test_any_loss_scale(void) {
    for (Precision p = PRECISION_BF16; p <= PRECISION_FP16; p++) {
        require_kind(p);
        ModelConfig config = config_wide();
        Batch batch;
        Model plain, scaled;
        config.precision = p;
        config.recompute = RECOMPUTE_LAYER; /* of the mixed products too, to the same bits */
        batch_new(&batch, &config);
        model_create(&scaled, &config, B, TOTAL, ACTS_TRAINING);
        config.recompute = RECOMPUTE_NONE;
        model_create(&plain, &config, B, TOTAL, ACTS_TRAINING);
        init_weights(&plain);
        init_weights(&scaled);
        model_backward(&plain, &batch, 1);
        model_backward(&scaled, &batch, 0x1p-30);
        for (size_t i = 0; i < plain.table.block_reals; i++) scaled.grads[i] *= (real)0x1p30;
        CHECK_SAME(scaled.grads, plain.grads, plain.table.block_reals);
        model_destroy(&plain);
        model_destroy(&scaled);
        model_batch_destroy(&batch);
    }
}

/* Loss after some hundred updates on one batch. */
static double train(Precision precision, size_t steps) {
    ModelConfig config = config_wide();
    OptimizerConfig optimizer = {.lr = 1e-3, .proj_lr = 1, .position_lr = 1};
    Batch batch;
    Model m;
    optimizer.betas[0] = 0.9;
    optimizer.betas[1] = 0.98;
    optimizer.eps = 1e-6;
    config.precision = precision;
    batch_new(&batch, &config);
    model_create(&m, &config, B, TOTAL, ACTS_TRAINING);
    init_weights(&m);
    size_t reals = m.table.block_reals;
    real *m1 = calloc(reals, sizeof *m1), *m2 = calloc(reals, sizeof *m2);
    REQUIRE(m1 && m2);
    for (size_t s = 1; s <= steps; s++) {
        model_zero_grads(&m);
        model_backward(&m, &batch, 1 / (double)batch.masked);
        optimizer_step(m.weights, m1, m2, m.grads, &m.table, &optimizer, optimizer.lr, 1, s);
    }
    double loss = model_loss(&m, &batch);
    free(m1);
    free(m2);
    model_destroy(&m);
    model_batch_destroy(&batch);
    return loss;
}

static void test_learns_as_fp32(void) {
    double fp32 = train(PRECISION_FP32, 60), start = train(PRECISION_FP32, 0);
    CHECK(fp32 < start / 2);
    for (Precision p = PRECISION_BF16; p <= PRECISION_FP16; p++) {
        if (!mixed_check(p, NULL)) continue;
        double loss = train(p, 60);
        CHECK_MSG(fabs(loss - fp32) <= 0.02 * start, "precision %d: %.5f, fp32 %.5f of %.5f", p,
                  loss, fp32, start);
    }
}

static void test_scratch_is_counted(void) {
    ModelConfig config = config_wide();
    size_t fp32, fp16;
    REQUIRE(activations_bytes(&fp32, &config, B, TOTAL, ACTS_TRAINING, NULL));
    config.precision = PRECISION_FP16;
    REQUIRE(activations_bytes(&fp16, &config, B, TOTAL, ACTS_TRAINING, NULL));
    CHECK(fp16 >= fp32 + mixed_scratch_bytes());
}

/* A build or a processor without it says so before anything is allocated. */
static void test_refused_where_missing(void) {
    for (Precision p = PRECISION_BF16; p <= PRECISION_FP16; p++) {
        ModelConfig config = config_wide();
        Activations acts;
        Err err = {0}, why = {0};
        config.precision = p;
        bool works = mixed_check(p, &why);
        bool made = activations_create(&acts, &config, B, TOTAL, ACTS_TRAINING, &err);
        CHECK(made == works);
        if (!works) {
            CHECK_INT(err.code, ERR_CONFIG);
            CHECK_STR(err.msg, why.msg);
        }
        activations_destroy(&acts);
    }
}

const Test tests_mixed_model[] = {
    {"gradients_bf16", test_gradients_bf16, TEST_FLOAT},
    {"gradients_fp16", test_gradients_fp16, TEST_FLOAT},
    {"any_loss_scale", test_any_loss_scale, TEST_FLOAT},
    {"learns_as_fp32", test_learns_as_fp32, TEST_FLOAT},
    {"scratch_is_counted", test_scratch_is_counted, TEST_FLOAT},
    {"refused_where_missing", test_refused_where_missing, TEST_ALWAYS},
    {0},
};
