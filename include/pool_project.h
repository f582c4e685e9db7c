/* Pooling along the sequence, the general projections of Linformer (arXiv 2006.04768, section 4):
 * `mean`, `max` and `conv`, a convolution with kernel and stride n/k.
 *
 * Row r of the P rows stands for the positions floor(r N / P) .. floor((r+1) N / P) - 1.  Where P
 * does not divide N the windows are floor(N/P) or ceil(N/P) positions wide, mixed evenly, so that P
 * of them always cover the N positions once.
 *
 * A sequence of T <= N tokens has the rows whose windows hold a token, pool_rows of them, and the
 * last window may hold fewer tokens than it has positions.  Windows without tokens have no row.
 * (Under `linear` and `fixed` every row of E reads all T tokens, so none is ever empty.  An empty
 * row would be a key of score 0 in every softmax: with T far below N most attention would go to
 * nothing, and P = N would no longer be full attention.)
 *   mean   over the tokens that are there
 *   max    of each column over the tokens that are there; of equal ones the first gets the gradient
 *   conv   depthwise: y[r][h D + d] = sum over j of taps_h[j][d] x[begin(r) + j][h D + d], D = C/H.
 *          taps_h is (ceil(N/P), D); a window with fewer tokens takes the first taps, and nothing
 *          is rescaled, as with the first T columns of E.  One tap for all columns would only
 *          weight the positions of a window, a special case of `linear`; with taps of its own a
 *          column can pick another token of the window than its neighbour does.  Full convolutions,
 *          which mix columns, would repeat the feature projection with N/P times its weights. */
#ifndef POOL_PROJECT_H
#define POOL_PROJECT_H

#include <stddef.h>

#include "real.h"

typedef struct PoolShape {
    size_t B, P, N, C;
    const size_t *start;     /* (B+1): sequence b is rows start[b].. of x, 1 to N tokens */
    const size_t *row_start; /* (B+1): and rows row_start[b].. of y, pool_rows of its length */
} PoolShape;

/* Rows of a sequence of T tokens: min(T, P) at most, P where T = N. */
size_t pool_rows(size_t T, size_t P, size_t N);

/* Positions of the widest window, ceil(N/P): taps of a convolution. */
size_t pool_taps(size_t P, size_t N);

/* y (row_start[B],C) overwritten   x (start[B],C) */
void pool_mean_forward(real *restrict y, const real *restrict x, const PoolShape *shape);

/* d_x is ADDED to.  Reads d_y. */
void pool_mean_backward(real *restrict d_x, const real *restrict d_y, const PoolShape *shape);

void pool_max_forward(real *restrict y, const real *restrict x, const PoolShape *shape);

/* d_x overwritten.  Reads d_y, and x and y as forward left them, to the bit: where x equals y is
 * the maximum. */
void pool_max_backward(real *restrict d_x, const real *restrict d_y, const real *restrict x,
                       const real *restrict y, const PoolShape *shape);

/* Head h's taps begin at taps + h * stride; stride 0: the heads share them. */
void pool_conv_forward(real *restrict y, const real *restrict x, const real *restrict taps,
                       size_t stride, size_t H, const PoolShape *shape);

/* d_x overwritten; d_taps, of the same stride, is ADDED to, sequence by sequence in order, so that
 * it does not depend on the thread count.  Reads d_y, x and taps. */
void pool_conv_backward(real *restrict d_x, real *restrict d_taps, const real *restrict d_y,
                        const real *restrict x, const real *restrict taps, size_t stride, size_t H,
                        const PoolShape *shape);

#endif
