/* Linformer attention of sequences shorter than the projected length, in the order that suits them:
 *   (Q K^T) E^T  in place of  Q (E K)^T,   (P F) V  in place of  P (F V)
 * The products in brackets are T x T, so nothing of the projected length but the scores exists, and
 * neither projected keys nor values are stored.  The result is that of seq_project.h and
 * attention.h up to rounding, with the same dropout masks. */
#ifndef SHORT_ATTENTION_H
#define SHORT_ATTENTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "real.h"

/* Sizes of a call. */
typedef struct ShortShape {
    size_t B;                /* sequences */
    size_t H, D;             /* heads, width of a head; C = H*D */
    size_t P, N;             /* rows and columns of E and F */
    size_t G;                /* matrices E, and as many F: 1, shared by the heads, or H */
    size_t proj_stride;      /* from matrix to matrix */
    size_t longest;          /* longer sequences are left out: not read, not written */
    const size_t *start;     /* (B+1) rows; borrowed */
    const uint64_t *seq_key; /* (B) dropout keys; may be NULL when p is 0 */
    size_t layer;            /* for the dropout key */
    double p;                /* dropout of the probabilities */
} ShortShape;

/* Sequences of at most this many tokens need fewer operations here, forward and backward taken
 * together. */
size_t short_attention_longest(size_t D, size_t P, size_t N);

/* Multiply-adds of one head of a sequence of T tokens: of the forward pass, or of the backward
 * pass, which recomputes T T (D + 2 P) of them, with gradients of E and F where these are
 * trained. */
double short_attention_forward_size(size_t T, size_t D, size_t P);
double short_attention_backward_size(size_t T, size_t D, size_t P, bool trained);

/* out = dropout(softmax(q (e k)^T / sqrt(D))) f v     per sequence and head, e = E[:, :T]
 * q, k, v, out (total,C): keys and values before the sequence projection   proj_k, proj_v: E and F
 * lse (total,H): log-sum-exp of each row of scores, kept for the backward pass; NULL: not wanted.
 * Overwritten: the rows of out and lse that belong to short sequences.  scratch:
 * short_attention_scratch reals.  Parallel over heads and groups of sequences. */
void short_attention_forward(real *restrict out, real *restrict lse, const real *restrict q,
                             const real *restrict k, const real *restrict v, const real *proj_k,
                             const real *proj_v, const ShortShape *shape, real *restrict scratch);

/* d_q, d_k, d_v (total,C): rows of short sequences overwritten.  d_v may be d_out.  d_proj_k,
 * d_proj_v are ADDED to (NULL: frozen; one pointer where E = F).  Reads the inputs of the forward
 * pass, its out and lse, and d_out (total,C). */
void short_attention_backward(real *restrict d_q, real *restrict d_k, real *d_v, real *d_proj_k,
                              real *d_proj_v, const real *d_out, const real *restrict q,
                              const real *restrict k, const real *restrict v, const real *proj_k,
                              const real *proj_v, const real *restrict out,
                              const real *restrict lse, const ShortShape *shape,
                              real *restrict scratch);

/* Reals of scratch for either pass with the current thread count, for shapes of these sizes. */
size_t short_attention_scratch(size_t H, size_t D, size_t P, size_t N);

#endif
