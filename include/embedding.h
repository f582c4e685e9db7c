/* Token plus position embedding, and gathers of rows. */
#ifndef EMBEDDING_H
#define EMBEDDING_H

#include <stddef.h>
#include <stdint.h>

#include "real.h"

/* y (total,C) = token[ids] + position[t], t counted from each sequence's start; y overwritten
 * token (V,C)   position (N,C)   start (B+1) */
void embedding_forward(real *restrict y, const real *restrict token, const real *restrict position,
                       const uint32_t *restrict ids, const size_t *restrict start, size_t B,
                       size_t C);

/* d_token, d_position are ADDED to, in an order that does not depend on the thread count (each
 * thread owns a range of columns). */
void embedding_backward(real *restrict d_token, real *restrict d_position, const real *restrict d_y,
                        const uint32_t *restrict ids, const size_t *restrict start, size_t B,
                        size_t C);

/* y (count,C) = x[rows], overwritten. */
void rows_gather(real *restrict y, const real *restrict x, const uint32_t *restrict rows,
                 size_t count, size_t C);

/* x[rows] += y; rows ascending and distinct. */
void rows_scatter_add(real *restrict x, const real *restrict y, const uint32_t *restrict rows,
                      size_t count, size_t C);

/* y (B,C) = mean of each sequence's rows of x (total,C), overwritten.  start (B+1) */
void sequence_mean_forward(real *restrict y, const real *restrict x, const size_t *restrict start,
                           size_t B, size_t C);

/* d_x (total,C) overwritten: each row of sequence b has d_y_b over its length. */
void sequence_mean_backward(real *restrict d_x, const real *restrict d_y,
                            const size_t *restrict start, size_t B, size_t C);

#endif
