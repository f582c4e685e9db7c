/* The textbook form of full attention, which keeps its T x T probabilities: the baseline that the
 * Linformer paper compares with.  Only the benchmarks run it; no configuration chooses it.
 *
 * The whole batch's probabilities exist at once: of one layer in inference, of every layer in
 * training, where the backward pass reads them.  That is the leanest such form.  Programs with
 * automatic differentiation also keep the scores or the dropped-out probabilities. */
#ifndef STORED_ATTENTION_H
#define STORED_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>

#include "activations.h"
#include "arena.h"
#include "attention.h"
#include "config.h"
#include "err.h"

typedef struct StoredAttention {
    AttentionKernel kernel; /* for Activations.kernel; as long as this struct stays in place */
    Arena arena;
    size_t n;            /* longest sequence, and most keys */
    size_t layer_reals;  /* from layer to layer; 0 where they share */
    real *probabilities; /* (layers,B,H,n,n); of each head the first T rows of as many keys */
    real *scratch;       /* (threads,n,n) training only */
} StoredAttention;

/* For up to B sequences of config->n tokens, with the thread count in force.  Everything is
 * allocated here. */
bool stored_attention_create(StoredAttention *out, const ModelConfig *config, size_t B,
                             ActMode mode, Err *err);
void stored_attention_destroy(StoredAttention *stored); /* accepts a zeroed struct */

/* Bytes stored_attention_create would allocate; false where they overflow. */
bool stored_attention_bytes(size_t *out, const ModelConfig *config, size_t B, ActMode mode);

#endif
