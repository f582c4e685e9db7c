/* Projected keys and values of a layer, kp = E (x Wk^T + 1 bk^T) and vp = F (x Wv^T + 1 bv^T):
 * feature projection, then sequence projection (arXiv 2006.04768, equation 7), computed in the
 * order that layer_compresses_first names.  A model that pools windows instead: pooled_kv.h. */
#ifndef PROJECTED_KV_H
#define PROJECTED_KV_H

#include <stdbool.h>

#include "encoder_layer.h"

/* kp, vp (B*P,C) of layer l from x (total,C); keeps k_pre, v_pre.  Full attention: kp = x Wk^T +
 * bk, vp likewise.  Of short sequences (attention_short_length) only k_pre and v_pre.  Reads
 * acts->key_start. */
void projected_kv_forward(const Pass *pass, size_t l, const real *x);

/* Adds to d_x (total,C) and to the gradients of k_w, k_b, v_w, v_b, E and F.  Reads acts->d_kp,
 * d_vp, x, k_pre, v_pre; of short sequences, whose E and F have their gradients already, the rows
 * of d_k and d_v, gradients of k_pre and v_pre.  d_k, d_v (total,C) are scratch besides. */
void projected_kv_backward(const Pass *pass, size_t l, real *d_x, const real *x, real *d_k,
                           real *d_v);

/* E or F of layer l: matrices, 1 or one a head. */
size_t projected_kv_matrices(const ModelConfig *config);

#endif
