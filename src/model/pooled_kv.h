/* Projected keys and values of a layer that pools windows of tokens (pool_project.h): kp, vp =
 * pool(x Wk^T + bk), pool(x Wv^T + bv).  The mean of a map is the map of the mean, bias included,
 * so `mean` pools x itself, once for both; the maximum is not linear, and a convolution with taps
 * of its own for each column does not commute with a map that mixes columns, so `max` and `conv`
 * pool the features. */
#ifndef POOLED_KV_H
#define POOLED_KV_H

#include "encoder_layer.h"

/* kp, vp (rows,C) of layer l from x (total,C), sequence b owning rows acts->key_start[b]..; keeps
 * k_pre, v_pre. */
void pooled_kv_forward(const Pass *pass, size_t l, const real *x);

/* Adds to d_x (total,C) and to the gradients of k_w, k_b, v_w, v_b and the taps.  Reads acts->d_kp,
 * d_vp, key_start, x, k_pre, v_pre, and kp, vp for `max`.  Scratch: acts->d_branch. */
void pooled_kv_backward(const Pass *pass, size_t l, real *d_x, const real *x);

#endif
