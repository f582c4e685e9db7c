/* The attention probabilities of one head as a matrix, which the model itself never stores. */
#ifndef ATTENTION_MAP_H
#define ATTENTION_MAP_H

#include <stddef.h>

#include "real.h"

/* p (T,keys) overwritten with softmax(q_h k_h^T / sqrt(D)), rows adding up to 1, where q_h and k_h
 * are columns h*D..h*D+D-1 of q (T,C) and k (keys,C).  With the projected keys of Linformer it is
 * the paper's Pbar (arXiv 2006.04768, equation 7), with those of full attention its P; p times the
 * same columns of the values is what attention_forward gives.  May be called from several threads
 * at once. */
void attention_map(real *restrict p, const real *restrict q, const real *restrict k, size_t T,
                   size_t keys, size_t C, size_t D, size_t h);

#endif
