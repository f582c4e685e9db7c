/* The start of `model.init: local`: every head looks at the tokens next to its own.
 *
 * From N(0, 0.02) masked-language models spend most of a small budget finding out that neighbours
 * matter.  Here attention begins as a set of shifts, in the manner of ConViT (arXiv 2103.10697) and
 * mimetic initialisation (arXiv 2305.09828):
 *   - token embeddings are N(0, 0.1); the first 2p of their elements are left to positions, which
 *     are p sine/cosine pairs of geometrically spaced frequencies at the same scale;
 *   - W_k of each head copies these pairs, W_q rotates them by the head's offset o, so that
 *     q_i . k_j / sqrt(d) is largest, 20 on average, where j = i + o.  Offsets are -1, 1, -2, 2,
 *     ... over the heads and layers;
 *   - W_v is N(0, 1/C); W_out is 0, so that nobody is disturbed by what does not mean anything yet.
 * E and F of Linformer:
 *   - matrix per head, S = ceil(n/k): row r holds position r S + c alone.  S heads with the classes
 *     c = 0..S-1 share one offset and W_v, so together they begin nearly as one head of full
 *     attention.  In layer 0 a head whose class does not hold the wanted position mostly looks at
 *     the last row, which is empty (its logit is 0; a constant pair of biases lowers those of all
 *     other rows by 17), so the last S positions are in none.  Deeper layers have no such bias, no
 *     empty row unless n positions fill fewer than k rows, and 12 at the peak: what the blocks
 *     before them add leaves positions a small part of the hidden states (a third of their square
 *     after 700 updates of configs/pretrain/small.yaml), so that the bias would soon be above every
 *     peak, all attention at the empty row, and no gradient would lead back;
 *   - shared matrix: row r holds the S positions of block r, at 1/sqrt(S); offsets are 0, -S, S,
 *     -2S, ... */
#ifndef LOCAL_INIT_H
#define LOCAL_INIT_H

#include "params.h"

/* Changes freshly initialised weights (N(0, 0.02) matrices, zero biases).  Heads have at least
 * LOCAL_INIT_MIN_HEAD elements and projections are learned: the configuration checks both. */
void local_init(Params *params, const ModelConfig *config);

#endif
