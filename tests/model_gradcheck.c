#include "model_gradcheck.h"

#include <stdio.h>

#include "gradcheck.h"
#include "harness.h"

/* The project's bound: the error of any gradient is at most 1e-7 of the tensor's largest. */
static const double TOLERANCE = 1e-7;

/* What the gradient blocks hold before the backward pass: it adds. */
static const real PREFILL = 0.25;

const size_t grad_lengths_long[GRAD_B_LONG] = {11, 1, 6, 2, 10, 5, 4, 3};
const size_t grad_lengths_short[GRAD_B_SHORT] = {1, 11, 6, 1, 5, 4, 1, 1, 10,
                                                 3, 2,  1, 1, 1, 1, 1, 1};

static double case_loss(void *ctx) {
    ModelGrad *c = ctx;
    return model_loss(&c->model, &c->batch);
}

/* Gradients that are zero: of key biases in full attention, because adding a constant to all
 * scores of a row doesn't change its softmax (under a projection the constants differ by the row
 * sums of E, which are 1 for means and maxima, and equal for convolutions of one tap); and of
 * whatever makes the scores where k = 1. */
static bool gradient_vanishes(const ModelGrad *c, const Tensor *t) {
    static const char *const of_scores[] = {"q_w", "q_b", "k_w", "k_b", "seq_proj_k"};
    const ModelConfig *config = &c->model.config;
    if (strncmp(t->name, "layer", 5)) return false;
    const char *part = strchr(t->name, '.') + 1;
    size_t k = config->k[t->name[5] - '0'];
    bool sums_are_equal = config->attention == ATTENTION_FULL ||
                          (model_pools(config) && config->projection != PROJECTION_CONV) ||
                          (model_pools(config) && k == config->n);
    if (sums_are_equal && !strcmp(part, "k_b")) return true;
    if (config->attention == ATTENTION_FULL || k > 1) return false;
    for (size_t i = 0; i < sizeof of_scores / sizeof *of_scores; i++)
        if (!strcmp(part, of_scores[i])) return strcmp(part, "seq_proj_k") || !config->tie_kv;
    return false;
}

static void check_tensor(ModelGrad *c, const Tensor *t) {
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

void grad_check_batch(ModelGrad *c, const size_t *lengths, size_t B) {
    Model *m = &c->model;
    model_batch_create(&c->batch, lengths, B, m->config.vocab, test_seed());
    if (m->config.classes > 0) model_batch_classify(&c->batch, m->config.classes, test_seed());
    for (size_t i = 0; i < m->table.count; i++)
        for (size_t j = 0; j < m->table.items[i].count; j++)
            m->grads[m->table.items[i].offset + j] = PREFILL;
    double loss = model_backward(m, &c->batch, 1 / model_batch_divisor(m, &c->batch));
    CHECK_CLOSE(loss, case_loss(c), 1e-14 * loss); /* the same sum, scaled before or after */
    for (size_t i = 0; i < m->table.count; i++) check_tensor(c, &m->table.items[i]);
    model_batch_destroy(&c->batch);
}

void grad_check_model(const ModelConfig *config, const char *name, GradBatches batches) {
    ModelGrad c = {.name = name, .samples = 12};
    model_create(&c.model, config, GRAD_B_SHORT, GRAD_TOTAL_MOST, ACTS_TRAINING);
    model_randomize(&c.model, test_seed());
    if (batches & GRAD_LONG) grad_check_batch(&c, grad_lengths_long, GRAD_B_LONG);
    if (batches & GRAD_SHORT) grad_check_batch(&c, grad_lengths_short, GRAD_B_SHORT);
    model_destroy(&c.model);
}

void grad_check_sharings(void (*check)(Scope scope, bool tie_kv)) {
    for (size_t i = 0; i < 6; i++) check((Scope)(i / 2), i % 2);
}

void grad_check_full(const ModelConfig *config) {
    for (size_t pre = 0; pre < 2; pre++) {
        ModelConfig full = *config;
        full.attention = ATTENTION_FULL;
        full.norm = pre ? NORM_PRE : NORM_POST;
        grad_check_model(&full, pre ? "full pre:" : "full:", GRAD_BOTH);
    }
}
