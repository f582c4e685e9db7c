/* The two blocks of an encoder layer.  encoder.c strings them together with the LayerNorms, after
 * (post) or before (pre). */
#ifndef ENCODER_LAYER_H
#define ENCODER_LAYER_H

#include "activations.h"
#include "batch.h"
#include "params.h"

/* What every block of one pass reads. */
typedef struct Pass {
    Activations *acts;
    const Params *params;
    Params *grads; /* NULL in a forward pass */
    const ModelConfig *config;
    const Batch *batch;
} Pass;

/* Sequences of at most this many tokens have no projected keys and values in layer l: their
 * attention is computed in the order of short_attention.h.  0: none. */
size_t attention_short_length(const Pass *pass, size_t l);

/* sum = residual + dropout(attention(x));  sum, x, residual (total,C); keeps q, k_pre, v_pre, kp,
 * vp (of short sequences none), att_out and lse of layer l. */
void attention_block_forward(const Pass *pass, size_t l, real *sum, const real *x,
                             const real *residual);

/* The two halves of it, for who takes the queries a part at a time.  First keys and values of the
 * whole batch; the shape is that of attention with all queries. */
AttentionShape attention_keys_forward(const Pass *pass, size_t l, const real *x);
/* Then queries, attention and output map of the rows of pass->batch, which are the whole batch or
 * a part of it that begins at its row first_row and that `shape` describes. */
void attention_rows_forward(const Pass *pass, const AttentionShape *shape, size_t first_row,
                            real *sum, const real *x, const real *residual);

/* d_x: gradient of the block's input x, without the residual's; overwritten, or added to where
 * accumulate.  d_x may be d_sum when accumulating.  Adds parameter gradients.  Reads x, d_sum and
 * what forward kept. */
void attention_block_backward(const Pass *pass, size_t l, real *d_x, const real *d_sum,
                              const real *x, int accumulate);

/* sum = residual + dropout(ff2(gelu(ff1(x))));  keeps ff_pre of layer l. */
void ffn_block_forward(const Pass *pass, size_t l, real *sum, const real *x, const real *residual);

/* ff_pre of layer l again, from the same x. */
void ffn_block_recompute(const Pass *pass, size_t l, const real *x);

/* As attention_block_backward; reads x, d_sum and ff_pre. */
void ffn_block_backward(const Pass *pass, size_t l, real *d_x, const real *d_sum, const real *x,
                        int accumulate);

#endif
