#include "mlm_head.h"

#include "encoder.h"
#include "harness.h"
#include "model_fixture.h"

#ifdef REAL_IS_DOUBLE
static const double TOL = 1e-13;
#else
static const double TOL = 2e-6; /* a few units of 2^-24, relative to the largest element */
#endif

enum { C = 12, V = 37 };
static const size_t lengths[] = {11, 2, 10, 5, 1, 6, 7};
enum { B = 7, TOTAL = 42 };

static Model m;
static Batch batch;

/* The encoder has run; acts.hidden stands. */
static void set_up(void) {
    ModelConfig config = model_config_tiny();
    model_batch_create(&batch, lengths, B, V, test_seed());
    model_create(&m, &config, B, TOTAL, ACTS_TRAINING);
    encoder_forward(&m.acts, &m.params, &m.config, &batch);
}

static void tear_down(void) {
    model_destroy(&m);
    model_batch_destroy(&batch);
}

static double head_loss(void) {
    return mlm_head_loss(&m.acts, &m.params, &m.config, &batch);
}

static double head_backward(double scale) {
    return mlm_head_loss_backward(&m.acts, &m.d_params, &m.params, &m.config, &batch, scale);
}

/* The definition, row by row in double. */
static double loss_by_definition(void) {
    const Params *p = &m.params;
    double sum = 0;
    for (size_t i = 0; i < batch.masked; i++) {
        const real *x = m.acts.hidden + batch.masked_rows[i] * C;
        double h[C], mean = 0, var = 0, total = 0, own = 0;
        for (size_t c = 0; c < C; c++) {
            double a = (double)p->head_b[c];
            for (size_t d = 0; d < C; d++) a += (double)p->head_w[c * C + d] * (double)x[d];
            h[c] = 0.5 * a * (1 + erf(a / sqrt(2)));
            mean += h[c] / C;
        }
        for (size_t c = 0; c < C; c++) var += (h[c] - mean) * (h[c] - mean) / C;
        for (size_t c = 0; c < C; c++)
            h[c] = (h[c] - mean) / sqrt(var + 1e-5) * (double)p->head_ln_w[c] +
                   (double)p->head_ln_b[c];
        for (size_t v = 0; v < V; v++) {
            double logit = (double)p->head_bias[v];
            for (size_t c = 0; c < C; c++) logit += (double)p->token[v * C + c] * h[c];
            total += exp(logit);
            if (v == batch.labels[i]) own = logit;
        }
        sum += log(total) - own;
    }
    return sum;
}

static void test_loss_is_the_definition(void) {
    set_up();
    double wanted = loss_by_definition();
    CHECK_CLOSE(head_loss() / wanted, 1, TOL);
    CHECK_CLOSE(head_backward(0.25) / wanted, 1, TOL);
    tear_down();
}

/* Untrained, all tokens are about equally likely.  Logits are products of a unit-variance vector
 * with embeddings of standard deviation 0.02: their variance 64 * 0.02^2 = 0.026 adds half of
 * itself to ln V, and the labels' own logits scatter by 0.16 / sqrt(masked rows). */
static void test_loss_at_init_is_ln_V(void) {
    enum { SEQUENCES = 40 };
    size_t long_lengths[SEQUENCES];
    for (size_t b = 0; b < SEQUENCES; b++) long_lengths[b] = 32;
    for (size_t pre = 0; pre < 2; pre++) {
        ModelConfig config = {.n = 32,
                              .k = {8, 8},
                              .scope = SCOPE_LAYER,
                              .layers = 2,
                              .width = 64,
                              .heads = 4,
                              .ffn = 256};
        config.vocab = 997;
        config.proj_init_std = 0.02;
        config.norm = pre ? NORM_PRE : NORM_POST;
        Model big;
        Batch text;
        model_create(&big, &config, SEQUENCES, SEQUENCES * 32, ACTS_TRAINING);
        params_init(big.weights, &big.table, &big.config, test_seed());
        model_batch_create(&text, long_lengths, SEQUENCES, 997, test_seed());
        CHECK_CLOSE(model_loss(&big, &text), log(997), 0.05);
        model_destroy(&big);
        model_batch_destroy(&text);
    }
}

static void test_logits_give_the_loss(void) {
    set_up();
    double loss = head_loss(), sum = 0;
    mlm_head_logits(&m.acts, &m.params, &m.config, batch.masked_rows, batch.masked);
    for (size_t i = 0; i < batch.masked; i++) {
        const real *logits = m.acts.logits + i * V;
        double total = 0;
        for (size_t v = 0; v < V; v++) total += exp((double)logits[v]);
        sum += log(total) - (double)logits[batch.labels[i]];
    }
    CHECK_CLOSE(sum / loss, 1, TOL);
    tear_down();
}

/* Rows that are not masked are not read, and their gradient is zero whatever d_hidden held. */
static void test_only_masked_rows_count(void) {
    set_up();
    double loss = head_loss();
    size_t unmasked = 0;
    for (size_t r = 0, i = 0; r < TOTAL; r++) {
        if (i < batch.masked && batch.masked_rows[i] == r) {
            i++;
            continue;
        }
        unmasked++;
        for (size_t c = 0; c < C; c++) m.acts.hidden[r * C + c] = (real)NAN;
    }
    CHECK(unmasked > 5);
    CHECK(head_loss() == loss);
    for (size_t j = 0; j < TOTAL * C; j++) m.acts.d_hidden[j] = (real)NAN;
    CHECK(head_backward(1) == loss);
    for (size_t r = 0, i = 0; r < TOTAL; r++) {
        bool masked = i < batch.masked && batch.masked_rows[i] == r;
        i += masked;
        for (size_t c = 0; c < C; c++) {
            real d = m.acts.d_hidden[r * C + c];
            if (!CHECK_MSG(masked ? d != 0 && isfinite(d) : d == 0, "row %zu: d_hidden %g", r,
                           (double)d))
                break;
        }
    }
    tear_down();
}

/* A few rows at a time or all at once. */
static void test_chunks(void) {
    set_up();
    Model whole;
    model_create(&whole, &m.config, B, TOTAL, ACTS_TRAINING);
    double loss = model_backward(&whole, &batch, 1);
    CHECK(batch.masked > 7 && whole.acts.head_rows >= batch.masked);
    for (size_t rows = 1; rows <= 7; rows += 3) { /* the last chunk is whole or not */
        model_zero_grads(&m);
        m.acts.head_rows = rows;
        CHECK_CLOSE(head_loss() / loss, 1, TOL);
        CHECK_CLOSE(model_backward(&m, &batch, 1) / loss, 1, TOL);
        check_grads_equal(&m, &whole, 1e-5, 10 * TOL);
    }
    model_destroy(&whole);
    tear_down();
}

/* No masked rows at all: an empty sum, gradients unchanged. */
static void test_nothing_masked(void) {
    set_up();
    batch.masked = 0;
    for (size_t j = 0; j < m.table.block_reals; j++) m.grads[j] = 3;
    CHECK(head_loss() == 0);
    CHECK(head_backward(1) == 0);
    for (size_t j = 0; j < TOTAL * C; j++) CHECK(m.acts.d_hidden[j] == 0);
    for (size_t j = 0; j < m.table.block_reals; j++) CHECK(m.grads[j] == 3);
    encoder_backward(&m.acts, &m.d_params, &m.params, &m.config, &batch);
    for (size_t j = 0; j < m.table.block_reals; j++) CHECK(m.grads[j] == 3);
    tear_down();
}

static void test_loss_scale(void) {
    set_up();
    check_loss_scale(&m, &batch, TOL);
    tear_down();
}

/* Decoder and input embedding are one tensor: a token that is in no input still gets a gradient,
 * from the decoder. */
static void test_decoder_is_tied(void) {
    set_up();
    for (size_t i = 0; i < TOTAL; i++) batch.ids[i] = batch.ids[i] == 5 ? 6 : batch.ids[i];
    model_backward(&m, &batch, 1);
    for (size_t c = 0; c < C; c++) CHECK(m.d_params.token[5 * C + c] != 0);
    tear_down();
}

const Test tests_mlm_head[] = {
    {"loss_is_the_definition", test_loss_is_the_definition, 0},
    {"loss_at_init_is_ln_V", test_loss_at_init_is_ln_V, 0},
    {"logits_give_the_loss", test_logits_give_the_loss, 0},
    {"only_masked_rows_count", test_only_masked_rows_count, 0},
    {"chunks", test_chunks, 0},
    {"nothing_masked", test_nothing_masked, 0},
    {"loss_scale", test_loss_scale, 0},
    {"decoder_is_tied", test_decoder_is_tied, 0},
    {0},
};
