/* Attention of one layer, all sequences and heads; the keys may be fewer than the queries, so that
 * Linformer attention (keys = the k projected positions; arXiv 2006.04768, equation 7) and full
 * attention are the same kernel. */
#ifndef ATTENTION_H
#define ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#include "real.h"

/* Sizes of a call. */
typedef struct AttentionShape {
    size_t B;                /* sequences */
    size_t H, D;             /* heads, width of a head; C = H*D */
    const size_t *start;     /* (B+1) rows of the queries; borrowed */
    const size_t *key_start; /* (B+1) rows of the keys: b*P for Linformer, start for full attention;
                                borrowed */
    const uint64_t *seq_key; /* (B) dropout keys; may be NULL when p is 0 */
    size_t layer;            /* for the dropout key */
    double p;                /* dropout of the probabilities */
    size_t longer_than;      /* only sequences of more tokens are read and written; 0: all */
    /* Where in a larger batch these sequences stand, for kernels that keep something of it: number
     * of the first, and how many of its queries were in calls before */
    size_t first_sequence, first_query;
} AttentionShape;

/* out = dropout(softmax(q k^T / sqrt(D))) v     per sequence and head
 * q, out (total,C), out overwritten   k, v (total_keys,C)   lse (total,H) overwritten: log-sum-exp
 * of each row of scores, kept for the backward pass instead of the probabilities.  lse may be NULL
 * (inference). The probability of query t and key j of head h is dropped by element (t % 1024) *
 * keys + j under the key rng_key(dropout_key(seq_key, layer, SITE_PROBABILITIES), RNG_DROPOUT, h, t
 * / 1024). Works on blocks of queries and keys with a running maximum: T x P probabilities never
 * exist.  scratch: attention_scratch() reals.  Parallel over (sequence, head, block of
 * queries). */
void attention_forward(real *restrict out, real *restrict lse, const real *restrict q,
                       const real *restrict k, const real *restrict v, const AttentionShape *shape,
                       real *restrict scratch);

/* d_q (total,C), d_k, d_v (total_keys,C), all overwritten.  Reads q, k, v, out, lse and d_out
 * (total,C); recomputes the probabilities block by block.  Uses rowsum(dP * P) = d_out . out (holds
 * with dropout too).  Parallel over (sequence, head). */
void attention_backward(real *restrict d_q, real *restrict d_k, real *restrict d_v,
                        const real *restrict d_out, const real *restrict q, const real *restrict k,
                        const real *restrict v, const real *restrict out, const real *restrict lse,
                        const AttentionShape *shape, real *restrict scratch);

/* Another way to compute the same, for benchmarks to compare with. */
typedef struct AttentionKernel {
    void (*forward)(void *context, real *out, const real *q, const real *k, const real *v,
                    const AttentionShape *shape);
    /* after a forward call of the same shape; all gradients overwritten */
    void (*backward)(void *context, real *d_q, real *d_k, real *d_v, const real *d_out,
                     const real *q, const real *k, const real *v, const AttentionShape *shape);
    void *context;
} AttentionKernel;

/* Reals of scratch for either pass with the current thread count, whatever the shape. */
size_t attention_scratch(void);

#endif
