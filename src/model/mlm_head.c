#include "mlm_head.h"

#include <assert.h>

#include "cross_entropy.h"
#include "elementwise.h"
#include "embedding.h"
#include "gelu.h"
#include "laps.h"
#include "layernorm.h"
#include "linear.h"

/* Logits of `count` rows of hidden; keeps head_x, head_pre, head_act, head_h and the LayerNorm
 * statistics. */
static void forward_rows(Activations *acts, const Params *params, const ModelConfig *config,
                         const uint32_t *rows, size_t count) {
    size_t C = config->width;
    rows_gather(acts->head_x, acts->hidden, rows, count, C);
    linear_forward(acts->head_pre, acts->head_x, params->head_w, params->head_b, count, C, C,
                   &acts->mixed);
    gelu_forward(acts->head_act, acts->head_pre, count * C);
    layernorm_forward(acts->head_h, acts->head_ln.mean, acts->head_ln.rstd, acts->head_act,
                      params->head_ln_w, params->head_ln_b, count, C);
    lap_linear(acts, PROFILE_HEAD, count, C, C, 1);
    linear_forward(acts->logits, acts->head_h, params->token, params->head_bias, count, C,
                   config->vocab, &acts->mixed);
    lap_linear(acts, PROFILE_DECODER, count, C, config->vocab, 1);
}

/* Gradients of those rows, given that acts->logits holds d_logits. */
static void backward_rows(Activations *acts, Params *grads, const Params *params,
                          const ModelConfig *config, const uint32_t *rows, size_t count) {
    size_t C = config->width;
    linear_backward(acts->d_head, grads->token, grads->head_bias, acts->logits, acts->head_h,
                    params->token, count, C, config->vocab, 0, &acts->mixed);
    lap_linear(acts, PROFILE_DECODER, count, C, config->vocab, 2);
    layernorm_backward(acts->d_head, grads->head_ln_w, grads->head_ln_b, acts->d_head,
                       acts->head_act, params->head_ln_w, acts->head_ln.mean, acts->head_ln.rstd,
                       acts->norm_scratch, count, C, 0);
    gelu_backward(acts->d_head, NULL, acts->d_head, acts->head_pre, count * C);
    linear_backward(acts->d_head2, grads->head_w, grads->head_b, acts->d_head, acts->head_x,
                    params->head_w, count, C, C, 0, &acts->mixed);
    rows_scatter_add(acts->d_hidden, acts->d_head2, rows, count, C);
    lap_linear(acts, PROFILE_HEAD, count, C, C, 2);
}

/* grads NULL: loss only. */
static double loss_by_chunks(Activations *acts, Params *grads, const Params *params,
                             const ModelConfig *config, const Batch *batch, double loss_scale) {
    double loss = 0;
    for (size_t first = 0; first < batch->masked; first += acts->head_rows) {
        size_t left = batch->masked - first,
               count = left < acts->head_rows ? left : acts->head_rows;
        const uint32_t *rows = batch->masked_rows + first;
        forward_rows(acts, params, config, rows, count);
        cross_entropy(acts->row_loss, acts->logits, batch->labels + first, count, config->vocab,
                      (real)loss_scale);
        loss += loss_sum(acts->row_loss, count);
        lap_elements(acts, PROFILE_LOSS, count * config->vocab, grads ? 2 : 1);
        if (grads) backward_rows(acts, grads, params, config, rows, count);
    }
    return loss;
}

double mlm_head_loss(Activations *acts, const Params *params, const ModelConfig *config,
                     const Batch *batch) {
    return loss_by_chunks(acts, NULL, params, config, batch, 0);
}

double mlm_head_loss_backward(Activations *acts, Params *grads, const Params *params,
                              const ModelConfig *config, const Batch *batch, double loss_scale) {
    assert(loss_scale > 0);
    vec_zero(acts->d_hidden, batch->total * config->width);
    lap_elements(acts, PROFILE_HEAD, batch->total * config->width, 1);
    return loss_by_chunks(acts, grads, params, config, batch, loss_scale);
}

void mlm_head_logits(Activations *acts, const Params *params, const ModelConfig *config,
                     const uint32_t *rows, size_t count) {
    assert(count <= acts->head_rows);
    forward_rows(acts, params, config, rows, count);
}
