/* Classification head on the hidden state of `<s>` (RoBERTa's), or on the mean over a sequence's
 * tokens, `<s>` and `</s>` among them (config->head_pooling): dropout, dense, tanh, dropout,
 * linear.  Dropout acts in ACTS_TRAINING mode at rate config->head_dropout, by batch->seq_key;
 * nothing but batch->start and, for the loss, batch->classes is read of a batch besides.  Models
 * with config->classes > 0 only. */
#ifndef CLASSIFIER_HEAD_H
#define CLASSIFIER_HEAD_H

#include "activations.h"
#include "batch.h"
#include "params.h"

/* acts->class_logits (B, classes), from acts->hidden. */
void classifier_head_forward(Activations *acts, const Params *params, const ModelConfig *config,
                             const Batch *batch);

/* The same, and then acts->class_logits becomes log-probabilities. */
void classifier_head_log_probs(Activations *acts, const Params *params, const ModelConfig *config,
                               const Batch *batch);

/* Forward, the sum over the sequences of the loss in nats (not the mean) against batch->classes,
 * and the gradient of loss_scale * sum: ADDED to the head's gradients, and
 * written to acts->d_hidden (overwritten; of pooling cls zero at rows other than `<s>`).
 * acts->class_logits is left holding the gradient of the logits. */
double classifier_head_loss_backward(Activations *acts, Params *grads, const Params *params,
                                     const ModelConfig *config, const Batch *batch,
                                     double loss_scale);

#endif
