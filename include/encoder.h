/* The RoBERTa encoder with Linformer or full attention: forward and hand-written backward over
 * ragged batches. */
#ifndef ENCODER_H
#define ENCODER_H

#include "activations.h"
#include "batch.h"
#include "params.h"

/* acts->hidden (total,C) = encoder(ids).  batch->total <= acts->max_total, every sequence of 1 to
 * config->n tokens (assert: callers check input first).  Dropout acts in ACTS_TRAINING mode only,
 * by batch->seq_key. */
void encoder_forward(Activations *acts, const Params *params, const ModelConfig *config,
                     const Batch *batch);

/* ADDS the gradients of all encoder parameters to grads, given acts->d_hidden (overwritten on the
 * way down) and the activations of the encoder_forward call just made with the same batch. */
void encoder_backward(Activations *acts, Params *grads, const Params *params,
                      const ModelConfig *config, const Batch *batch);

#endif
