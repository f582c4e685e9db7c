/* Masked-language-model head on the masked rows only: dense -> GELU -> LayerNorm -> decoder tied to
 * the token embedding, plus a bias.  Rows are processed head_rows at a time, so the logits of a
 * batch never exist as a whole. */
#ifndef MLM_HEAD_H
#define MLM_HEAD_H

#include "activations.h"
#include "batch.h"
#include "params.h"

/* Sum over the masked rows of the loss in nats (not the mean).  Reads acts->hidden.  No gradient.
 */
double mlm_head_loss(Activations *acts, const Params *params, const ModelConfig *config,
                     const Batch *batch);

/* The same sum, and the gradient of loss_scale * sum: ADDED to the head's and the token embedding's
 * gradients, and written to acts->d_hidden (overwritten; zero at rows that are not masked). */
double mlm_head_loss_backward(Activations *acts, Params *grads, const Params *params,
                              const ModelConfig *config, const Batch *batch, double loss_scale);

/* Logits of up to acts->head_rows rows into acts->logits (count,V); for fill-mask. */
void mlm_head_logits(Activations *acts, const Params *params, const ModelConfig *config,
                     const uint32_t *rows, size_t count);

#endif
