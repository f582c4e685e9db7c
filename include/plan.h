/* What a configuration will cost, without running it.
 *
 * Operations are counted as model FLOPs: those of the matrix products of the algorithm, a multiply
 * and an add counted as two.
 *   counted      linear maps of the rows they really act on; sequence projections (P x T x C for
 *                each sequence and projection; T x C for a convolution); attention scores and
 *                weighted sums over the keys there are (P, T in full attention, the windows with a
 *                token where the model pools); the head on the masked rows only, a classification
 *                head on one row a sequence
 *   backward     twice the forward count: one product for the input's gradient and one for the
 *                weight's; in attention the four of d_probabilities, d_v, d_q and d_k.  The
 *                gradient of a frozen projection is not computed and not counted
 *   not counted  means and maxima of windows, embedding look-ups, biases, LayerNorm, GELU, softmax,
 *                dropout, the loss, the optimizer; and whatever the backward pass computes a second
 *                time instead of keeping it (scores, GELU, LayerNorm): that is our choice, not the
 *                model
 * Keys and values are counted in the order they are computed in: compressed first where the heads
 * share E and B*P < total, and then once for both where E = F; `mean` is pooled first, `max` and
 * `conv` last. */
#ifndef PLAN_H
#define PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"

typedef struct Plan {
    size_t parameters, trainable, projection_matrices;
    size_t micro_batch; /* sequences at a time that the memory is for */
    size_t weight_bytes, grad_bytes, moment_bytes, activation_bytes, batch_bytes; /* of training */
    size_t memory_bytes; /* their sum: what a run needs besides program and libraries */
    /* of full-length sequences, train.mask_rate of the tokens predicted */
    double flops_per_token; /* forward and backward */
    double forward_flops_per_token;
} Plan;

/* config->model.vocab must be set.  Every thread has scratch of its own: the memory is that of the
 * thread count in force, which threads_set(config->train.threads) makes that of the training.
 * Fails with ERR_CONFIG when sizes overflow. */
bool plan_compute(Plan *out, const Config *config, Err *err);

/* Operations of the forward and backward passes over one ragged batch, its B sequences of the given
 * lengths at once.  With a classification head `masked` is not looked at. */
double plan_step_flops(const ModelConfig *config, const size_t *lengths, size_t B, size_t masked);

/* Those of the forward pass alone. */
double plan_forward_flops(const ModelConfig *config, const size_t *lengths, size_t B,
                          size_t masked);

/* Tokens that the budget of config consumes at full-length sequences, given the tokens of an
 * epoch and the speed; 0 where that is not known (epochs without prepared data, hours without a
 * speed). */
double plan_budget_tokens(const Config *config, size_t epoch_tokens, double tokens_per_s);

#endif
