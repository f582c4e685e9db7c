/* How the attention of a layer comes by its keys and values: how many, and in which order they are
 * computed.  Functions of the configuration and of a batch's size alone, so that plans and the
 * encoder agree. */
#ifndef LAYER_KEYS_H
#define LAYER_KEYS_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"

/* Keys of layer l for a sequence of T tokens: T in full attention, k, or the windows that hold a
 * token where the model pools (pool_project.h). */
size_t layer_key_rows(const ModelConfig *config, size_t l, size_t T);

/* The order in which layer l computes projected keys and values of B sequences of `total` tokens.
 * True: E x first, then Wk (E shared by the heads, and fewer projected rows than tokens).  False: x
 * Wk first, then E.  Only Linformer attention has a choice, and there pooling has none: true for
 * `mean`, false for `max` and `conv`. */
bool layer_compresses_first(const ModelConfig *config, size_t l, size_t B, size_t total);

/* Sequences of at most this many tokens have their attention in layer l computed in the order of
 * short_attention.h, of a batch of B sequences and `total` tokens; 0: none. */
size_t layer_short_length(const ModelConfig *config, size_t l, size_t B, size_t total);

#endif
