#include "classifier_head.h"

#include <assert.h>
#include <tgmath.h>

#include "cross_entropy.h"
#include "dropout.h"
#include "elementwise.h"
#include "embedding.h"
#include "laps.h"
#include "linear.h"

/* B rows, one of each sequence, out of place or in place; p = 0 draws nothing. */
static void row_dropout(real *y, const real *x, const Activations *acts, const ModelConfig *config,
                        const Batch *batch, DropoutSite site) {
    residual_dropout_forward(y, NULL, x, NULL, acts->class_start, batch->seq_key, batch->B,
                             config->width, 0, site, config->head_dropout);
}

static void tanh_forward(real *y, size_t count) {
    for (size_t i = 0; i < count; i++) y[i] = tanh(y[i]);
}

/* d *= 1 - y^2, where y is the tanh. */
static void tanh_backward(real *restrict d, const real *restrict y, size_t count) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) d[i] *= 1 - y[i] * y[i];
}

/* Rows of the `<s>`, and the same rows once gathered. */
static void locate_rows(Activations *acts, const Batch *batch) {
    for (size_t b = 0; b < batch->B; b++) {
        assert(batch->start[b] < batch->start[b + 1]);
        acts->class_rows[b] = (uint32_t)batch->start[b];
        acts->class_start[b] = b;
    }
    acts->class_start[batch->B] = batch->B;
}

void classifier_head_forward(Activations *acts, const Params *params, const ModelConfig *config,
                             const Batch *batch) {
    size_t B = batch->B, C = config->width;
    bool training = acts->mode == ACTS_TRAINING;
    assert(config->classes > 0 && B <= acts->max_B);
    locate_rows(acts, batch);
    if (config->head_pooling == HEAD_POOLING_MEAN)
        sequence_mean_forward(acts->class_x, acts->hidden, batch->start, B, C);
    else
        rows_gather(acts->class_x, acts->hidden, acts->class_rows, B, C);
    if (training) row_dropout(acts->class_x, acts->class_x, acts, config, batch, SITE_HEAD_INPUT);
    linear_forward(acts->class_tanh, acts->class_x, params->class_dense_w, params->class_dense_b, B,
                   C, C, NULL);
    tanh_forward(acts->class_tanh, B * C);
    if (training)
        row_dropout(acts->class_h, acts->class_tanh, acts, config, batch, SITE_HEAD_DENSE);
    const real *h = training ? acts->class_h : acts->class_tanh; /* training buffers, lent out */
    linear_forward(acts->class_logits, h, params->class_out_w, params->class_out_b, B, C,
                   config->classes, NULL);
    lap_linear(acts, PROFILE_HEAD, B, C, C + config->classes, 1);
}

void classifier_head_log_probs(Activations *acts, const Params *params, const ModelConfig *config,
                               const Batch *batch) {
    classifier_head_forward(acts, params, config, batch);
    log_softmax_rows(acts->class_logits, batch->B, config->classes);
}

/* Given that acts->class_logits holds d_logits. */
static void backward(Activations *acts, Params *grads, const Params *params,
                     const ModelConfig *config, const Batch *batch) {
    size_t B = batch->B, C = config->width;
    linear_backward(acts->d_head, grads->class_out_w, grads->class_out_b, acts->class_logits,
                    acts->class_h, params->class_out_w, B, C, config->classes, 0, NULL);
    row_dropout(acts->d_head, acts->d_head, acts, config, batch, SITE_HEAD_DENSE);
    tanh_backward(acts->d_head, acts->class_tanh, B * C);
    linear_backward(acts->d_head2, grads->class_dense_w, grads->class_dense_b, acts->d_head,
                    acts->class_x, params->class_dense_w, B, C, C, 0, NULL);
    row_dropout(acts->d_head2, acts->d_head2, acts, config, batch, SITE_HEAD_INPUT);
    if (config->head_pooling == HEAD_POOLING_MEAN) {
        sequence_mean_backward(acts->d_hidden, acts->d_head2, batch->start, B, C);
    } else {
        vec_zero(acts->d_hidden, batch->total * C);
        rows_scatter_add(acts->d_hidden, acts->d_head2, acts->class_rows, B, C);
    }
}

double classifier_head_loss_backward(Activations *acts, Params *grads, const Params *params,
                                     const ModelConfig *config, const Batch *batch,
                                     double loss_scale) {
    assert(acts->mode == ACTS_TRAINING && loss_scale > 0);
    classifier_head_forward(acts, params, config, batch);
    cross_entropy(acts->row_loss, acts->class_logits, batch->classes, batch->B, config->classes,
                  (real)loss_scale);
    lap_elements(acts, PROFILE_LOSS, batch->B * config->classes, 2);
    backward(acts, grads, params, config, batch);
    lap_linear(acts, PROFILE_HEAD, batch->B, config->width, config->width + config->classes, 2);
    return loss_sum(acts->row_loss, batch->B);
}
