/* The RoBERTa encoder with Linformer or full attention: forward and hand-written backward over
 * ragged batches. */
#ifndef ENCODER_H
#define ENCODER_H

#include <stdbool.h>

#include "activations.h"
#include "batch.h"
#include "params.h"

/* acts->hidden (total,C) = encoder(ids).  batch->total <= acts->max_total, every sequence of 1 to
 * config->n tokens (assert: callers check input first).  Dropout acts in ACTS_TRAINING mode only,
 * by batch->seq_key. */
void encoder_forward(Activations *acts, const Params *params, const ModelConfig *config,
                     const Batch *batch);

/* Keys of layer l for a sequence of T tokens: T in full attention, k, or the windows that hold a
 * token where the model pools (pool_project.h). */
size_t encoder_key_rows(const ModelConfig *config, size_t l, size_t T);

/* The order in which layer l computes projected keys and values of B sequences of `total` tokens.
 * True: E x first, then Wk (E shared by the heads, and fewer projected rows than tokens).  False: x
 * Wk first, then E.  Only Linformer attention has a choice, and there pooling has none: true for
 * `mean`, false for `max` and `conv`. */
bool encoder_compresses_first(const ModelConfig *config, size_t l, size_t B, size_t total);

/* Sequences of at most this many tokens have their attention in layer l computed in the order of
 * short_attention.h, of a batch of B sequences and `total` tokens; 0: none. */
size_t encoder_short_length(const ModelConfig *config, size_t l, size_t B, size_t total);

/* ADDS the gradients of all encoder parameters to grads, given acts->d_hidden (overwritten on the
 * way down) and the activations of the encoder_forward call just made with the same batch. */
void encoder_backward(Activations *acts, Params *grads, const Params *params,
                      const ModelConfig *config, const Batch *batch);

#endif
