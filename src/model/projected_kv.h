/* Projected keys and values of a layer, kp = E (x Wk^T + 1 bk^T) and vp = F (x Wv^T + 1 bv^T):
 * feature projection, then sequence projection (arXiv 2006.04768, equation 7), computed in the
 * order that encoder_compresses_first names.  A model that pools windows instead: pooled_kv.h. */
#ifndef PROJECTED_KV_H
#define PROJECTED_KV_H

#include <stdbool.h>

#include "encoder_layer.h"

/* kp, vp (B*P,C) of layer l from x (total,C); keeps k_pre, v_pre.  Full attention: kp = x Wk^T +
 * bk, vp likewise.  Reads acts->key_start. */
void projected_kv_forward(const Pass *pass, size_t l, const real *x);

/* Adds to d_x (total,C) and to the gradients of k_w, k_b, v_w, v_b, E and F.  Reads acts->d_kp,
 * d_vp, x, k_pre, v_pre. Scratch: acts->d_branch. */
void projected_kv_backward(const Pass *pass, size_t l, real *d_x, const real *x);

#endif
