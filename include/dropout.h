/* Dropout from counter-based randomness: element i of a sequence is kept by a pure function of
 * (key, i), so the mask is recomputed in the backward pass, not stored, and doesn't depend on batch
 * mates or threads.  Kept values are scaled by 1/(1-p).  Keys come from dropout_key. */
#ifndef DROPOUT_H
#define DROPOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "real.h"
#include "rng.h"

/* Places in the model where dropout acts; part of the key. */
typedef enum DropoutSite {
    SITE_EMBEDDING,
    SITE_PROBABILITIES,
    SITE_ATTENTION,
    SITE_FFN,
    SITE_HEAD_INPUT, /* classification head: what it pools, before the dense map */
    SITE_HEAD_DENSE  /* and its tanh before the last map */
} DropoutSite;

/* Key of one sequence at one site of one layer. */
uint64_t dropout_key(uint64_t seq_key, size_t layer, DropoutSite site);

/* 32-bit threshold of probability p: an element is dropped when its 32 random bits are below it. */
static inline uint32_t dropout_threshold(double p) {
    return (uint32_t)(p * 4294967296.0);
}

/* 0 or scale for element `index`. */
static inline real dropout_factor(uint64_t key, uint32_t index, uint32_t threshold, real scale) {
    return rng_u32_fast(key, index) >= threshold ? scale : (real)0;
}

/* Residual branch of a block: r = x + dropout(branch + bias), one pass.
 * r (total,C) overwritten; may be x or branch   x (total,C), or NULL: nothing added   branch
 * (total,C)   bias (C) or NULL Element (t,c) of sequence b has index t*C + c, t counted from the
 * sequence's start. p = 0: no randomness is drawn. */
void residual_dropout_forward(real *r, const real *x, const real *branch, const real *restrict bias,
                              const size_t *restrict start, const uint64_t *restrict seq_key,
                              size_t B, size_t C, size_t layer, DropoutSite site, double p);

/* d_branch = mask * d_r / (1-p), overwritten; d_branch may be d_r.  (d_x of the residual is d_r
 * itself; d_bias is the column sum of d_branch.) */
void residual_dropout_backward(real *d_branch, const real *d_r, const size_t *restrict start,
                               const uint64_t *restrict seq_key, size_t B, size_t C, size_t layer,
                               DropoutSite site, double p);

#endif
