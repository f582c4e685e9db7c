#include "classifier_head.h"

#include "encoder.h"
#include "harness.h"
#include "model_fixture.h"

#ifdef REAL_IS_DOUBLE
static const double TOL = 1e-13;
#else
static const double TOL = 2e-6; /* a few units of 2^-24, relative to the largest element */
#endif

enum { C = 12, CLASSES = 5 };
static const size_t lengths[] = {11, 2, 10, 5, 1, 6, 7};
enum { B = 7, TOTAL = 42 };

static Model m;
static Batch batch;

static ModelConfig config_classifier(double dropout) {
    ModelConfig config = model_config_tiny();
    config.classes = CLASSES;
    config.dropout = config.attention_dropout = dropout / 2;
    config.head_dropout = dropout;
    return config;
}

/* The encoder has run; acts.hidden stands. */
static void set_up(double dropout, ActMode mode) {
    ModelConfig config = config_classifier(dropout);
    model_batch_create(&batch, lengths, B, config.vocab, test_seed());
    model_batch_classify(&batch, CLASSES, test_seed());
    model_create(&m, &config, B, TOTAL, mode);
    encoder_forward(&m.acts, &m.params, &m.config, &batch);
}

static void tear_down(void) {
    model_destroy(&m);
    model_batch_destroy(&batch);
}

static void forward(void) {
    classifier_head_forward(&m.acts, &m.params, &m.config, &batch);
}

static double head_loss(void) {
    classifier_head_log_probs(&m.acts, &m.params, &m.config, &batch);
    return model_class_loss(&m, &batch);
}

static double head_backward(double scale) {
    return classifier_head_loss_backward(&m.acts, &m.d_params, &m.params, &m.config, &batch, scale);
}

/* The definition, one sequence in double, without dropout. */
static void logits_by_definition(double *out, size_t b) {
    const Params *p = &m.params;
    double h[C], x[C] = {0};
    size_t rows = m.config.head_pooling == HEAD_POOLING_MEAN ? lengths[b] : 1;
    for (size_t j = 0; j < rows * C; j++)
        x[j % C] += (double)m.acts.hidden[batch.start[b] * C + j] / (double)rows;
    for (size_t c = 0; c < C; c++) {
        double a = (double)p->class_dense_b[c];
        for (size_t d = 0; d < C; d++) a += (double)p->class_dense_w[c * C + d] * x[d];
        h[c] = tanh(a);
    }
    for (size_t k = 0; k < CLASSES; k++) {
        out[k] = (double)p->class_out_b[k];
        for (size_t c = 0; c < C; c++) out[k] += (double)p->class_out_w[k * C + c] * h[c];
    }
}

/* In inference, whatever the rates; and in training with all of them 0. */
static void test_logits_and_loss_are_the_definition(void) {
    for (size_t i = 0; i < 4; i++) {
        bool training = i / 2;
        set_up(training ? 0 : 0.3, training ? ACTS_TRAINING : ACTS_INFERENCE);
        m.config.head_pooling = (HeadPooling)(i % 2);
        double wanted_sum = 0;
        forward();
        for (size_t b = 0; b < B; b++) {
            double wanted[CLASSES], total = 0;
            logits_by_definition(wanted, b);
            for (size_t k = 0; k < CLASSES; k++) {
                CHECK_CLOSE((double)m.acts.class_logits[b * CLASSES + k], wanted[k], 10 * TOL);
                total += exp(wanted[k]);
            }
            wanted_sum += log(total) - wanted[batch.classes[b]];
        }
        CHECK_CLOSE(head_loss() / wanted_sum, 1, TOL);
        if (training) CHECK_CLOSE(head_backward(0.25) / wanted_sum, 1, TOL);
        tear_down();
    }
}

/* They are of the same logits: a row's probabilities sum to one. */
static void test_log_probabilities(void) {
    set_up(0, ACTS_INFERENCE);
    head_loss();
    for (size_t b = 0; b < B; b++) {
        const real *row = m.acts.class_logits + b * CLASSES;
        double logits[CLASSES], total = 0;
        logits_by_definition(logits, b);
        for (size_t k = 0; k < CLASSES; k++) {
            total += exp((double)row[k]);
            CHECK_CLOSE((double)(row[k] - row[0]), logits[k] - logits[0], 20 * TOL);
        }
        CHECK_CLOSE(total, 1, TOL);
    }
    tear_down();
}

/* Untrained, all classes are about equally likely: logits are products of tanh values below 1 with
 * weights of standard deviation 0.02. */
static void test_loss_at_init_is_ln_classes(void) {
    set_up(0.1, ACTS_TRAINING);
    params_init(m.weights, &m.table, &m.config, test_seed());
    CHECK_CLOSE(model_loss(&m, &batch), log(CLASSES), 0.05);
    tear_down();
}

/* Pooling cls: other rows than `<s>` are not read, and their gradient is zero whatever d_hidden
 * held. */
static void test_only_first_rows_count(void) {
    set_up(0.2, ACTS_TRAINING);
    double loss = head_loss(), trained = head_backward(1);
    bool first[TOTAL] = {false};
    for (size_t b = 0; b < B; b++) first[batch.start[b]] = true;
    for (size_t j = 0; j < TOTAL * C; j++) {
        if (!first[j / C]) m.acts.hidden[j] = (real)NAN;
        m.acts.d_hidden[j] = (real)NAN;
    }
    CHECK(head_loss() == loss);
    CHECK(head_backward(1) == trained);
    size_t nonzero = 0;
    for (size_t j = 0; j < TOTAL * C; j++) {
        real d = m.acts.d_hidden[j];
        if (first[j / C])
            nonzero += d != 0 && isfinite(d);
        else if (!CHECK_MSG(d == 0, "row %zu: d_hidden %g", j / C, (double)d))
            break;
    }
    CHECK(nonzero > B * C / 2); /* the rest of them was dropped */
    tear_down();
}

static void test_loss_scale(void) {
    set_up(0.2, ACTS_TRAINING);
    check_loss_scale(&m, &batch, TOL);
    tear_down();
}

/* Both masks can be read off what they leave of ones and of the tanh; the rate is the head's
 * own. */
static void test_dropout_masks(void) {
    const double rate = 0.5;
    set_up(rate, ACTS_TRAINING);
    size_t kept_x = 0, kept_h = 0, same = 0;
    for (size_t j = 0; j < TOTAL * C; j++) m.acts.hidden[j] = 1;
    forward();
    for (size_t j = 0; j < B * C; j++) {
        real x = m.acts.class_x[j], t = m.acts.class_tanh[j], h = m.acts.class_h[j];
        CHECK(x == 0 || x == 2);
        CHECK(h == 0 || h == 2 * t);
        kept_x += x != 0, kept_h += h != 0, same += (x != 0) == (h != 0);
    }
    /* five sigma of 84 fair coins: 23 */
    CHECK_CLOSE((double)kept_x, B * C / 2, 23);
    CHECK_CLOSE((double)kept_h, B * C / 2, 23);
    CHECK_CLOSE((double)same, B * C / 2, 23); /* masks of their own */
    tear_down();
}

/* A sequence's logits and the gradient it causes are the same alone and among others, and dropout
 * follows its key. */
static void check_batch_mates(HeadPooling pooling) {
    set_up(0.2, ACTS_TRAINING);
    m.config.head_pooling = pooling;
    Model alone, sum;
    model_create(&alone, &m.config, 1, 11, ACTS_TRAINING);
    model_create(&sum, &m.config, 1, 11, ACTS_TRAINING);
    forward();
    double loss = 0;
    for (size_t b = 0; b < B; b++) {
        Batch one;
        batch_slice(&one, &batch, b, 1);
        encoder_forward(&alone.acts, &alone.params, &alone.config, &one);
        classifier_head_forward(&alone.acts, &alone.params, &alone.config, &one);
        double error =
            array_error(alone.acts.class_logits, m.acts.class_logits + b * CLASSES, CLASSES);
        CHECK_MSG(error <= TOL, "sequence %zu: logits differ by %.2e", b, error);
        loss += model_backward(&sum, &one, 1);
        model_batch_destroy(&one);
    }
    CHECK_CLOSE(model_backward(&m, &batch, 1) / loss, 1, TOL);
    check_grads_equal(&m, &sum, 1e-5, 10 * TOL);
    batch.seq_key[3] ^= 1;
    forward();
    CHECK(array_error(alone.acts.class_logits, m.acts.class_logits, CLASSES) > 1e-3);
    model_destroy(&alone);
    model_destroy(&sum);
    tear_down();
}

static void test_batch_mates_do_not_matter(void) {
    check_batch_mates(HEAD_POOLING_CLS);
    check_batch_mates(HEAD_POOLING_MEAN);
}

/* One head or the other: tensors and buffers. */
static void test_there_is_one_head(void) {
    ModelConfig config = config_classifier(0);
    Model mlm;
    size_t with = 0, without = 0;
    set_up(0, ACTS_TRAINING);
    REQUIRE(activations_bytes(&with, &config, B, TOTAL, ACTS_TRAINING, NULL));
    CHECK(m.acts.arena.used == with);
    CHECK(m.acts.logits == NULL && m.acts.head_x == NULL && m.acts.head_rows == 0);
    CHECK(m.params.head_w == NULL && m.params.class_dense_w != NULL);
    config.classes = 0;
    model_create(&mlm, &config, B, TOTAL, ACTS_TRAINING);
    CHECK(mlm.acts.class_logits == NULL && mlm.acts.class_x == NULL && mlm.acts.logits != NULL);
    CHECK(mlm.params.class_dense_w == NULL && mlm.params.class_out_b == NULL);
    REQUIRE(activations_bytes(&without, &config, B, TOTAL, ACTS_TRAINING, NULL));
    CHECK(with < without);
    model_destroy(&mlm);
    tear_down();
}

/* Plain gradient descent learns the classes of seven sequences by heart. */
static void test_learns(void) {
    set_up(0, ACTS_TRAINING);
    for (size_t step = 0; step < 300; step++) {
        model_zero_grads(&m);
        model_backward(&m, &batch, 1 / (double)B);
        for (size_t j = 0; j < m.table.block_reals; j++) m.weights[j] -= m.grads[j] / 10;
    }
    CHECK(model_loss(&m, &batch) < 0.05);
    tear_down();
}

const Test tests_classifier_head[] = {
    {"logits_and_loss_are_the_definition", test_logits_and_loss_are_the_definition, 0},
    {"log_probabilities", test_log_probabilities, 0},
    {"loss_at_init_is_ln_classes", test_loss_at_init_is_ln_classes, 0},
    {"only_first_rows_count", test_only_first_rows_count, 0},
    {"loss_scale", test_loss_scale, 0},
    {"dropout_masks", test_dropout_masks, 0},
    {"batch_mates_do_not_matter", test_batch_mates_do_not_matter, 0},
    {"there_is_one_head", test_there_is_one_head, 0},
    {"learns", test_learns, 0},
    {0},
};
