/* The sequence projection of Linformer (arXiv 2006.04768, section 4): y_b = E[:, :T_b] x_b for
 * every sequence of a ragged batch.  A sequence shorter than n uses the first T_b columns.  No
 * bias: the projection acts along the sequence. */
#ifndef SEQ_PROJECT_H
#define SEQ_PROJECT_H

#include <stddef.h>

#include "real.h"

/* longer_than, of both passes: only sequences of more tokens are read and written; 0 is all. */

/* y (B,P,C) overwritten   x (total,C)   proj: G matrices (P,N), G = 1 (shared by the heads) or H
 * (head g projects columns g*C/G .. (g+1)*C/G - 1 of x); matrix g begins at proj + g*proj_stride
 * (proj_stride >= P*N: under model scope a layer uses the first P rows of a taller matrix)   start
 * (B+1) */
void seq_project_forward(real *restrict y, const real *restrict x, const real *restrict proj,
                         size_t proj_stride, const size_t *restrict start, size_t B, size_t G,
                         size_t P, size_t N, size_t C, size_t longer_than);

/* d_x (total,C): overwritten, or added to where accumulate_x; NULL: not wanted.  d_proj is ADDED to
 * (NULL: frozen). Reads x, proj and d_y (B,P,C). */
void seq_project_backward(real *restrict d_x, real *restrict d_proj, const real *restrict d_y,
                          const real *restrict x, const real *restrict proj, size_t proj_stride,
                          const size_t *restrict start, size_t B, size_t G, size_t P, size_t N,
                          size_t C, size_t longer_than, int accumulate_x);

/* Compress-first order needs E 1 for the bias:  E (X W^T + 1 b^T) = (E X) W^T + (E 1) b^T.
 * row_sums (B,P) overwritten: sum of the first T_b columns of each row of proj (P,N). */
void seq_project_row_sums(real *restrict row_sums, const real *restrict proj,
                          const size_t *restrict start, size_t B, size_t P, size_t N);

/* y (B*P,C) += row_sums (B*P) b^T (C): adds the bias after compression. */
void seq_project_bias_forward(real *restrict y, const real *restrict row_sums,
                              const real *restrict b, size_t rows, size_t C);

/* d_b (C) += row_sums^T d_y;  d_proj[p][t] += d_y_p . b  for t < T_b (NULL: frozen).  scratch: rows
 * reals. */
void seq_project_bias_backward(real *restrict d_b, real *restrict d_proj, const real *restrict d_y,
                               const real *restrict row_sums, const real *restrict b,
                               const size_t *restrict start, real *restrict scratch, size_t B,
                               size_t P, size_t N, size_t C);

#endif
