/* What an optimizer works on: weights, gradients and moments of one model, four blocks of the same
 * layout in one piece of memory. */
#ifndef TRAIN_BLOCKS_H
#define TRAIN_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "config.h"
#include "err.h"
#include "params.h"

typedef struct TrainBlocks {
    const ParamTable *table; /* borrowed: outlives the blocks */
    Arena arena;
    Params weights, grads;
    real *adam_m, *adam_v; /* adam_v NULL for SGD */
} TrainBlocks;

/* All zero. */
bool train_blocks_create(TrainBlocks *out, const ParamTable *table, const ModelConfig *model,
                         const OptimizerConfig *optimizer, Err *err);
void train_blocks_destroy(TrainBlocks *blocks); /* accepts zeroed blocks */

/* Update number `step` (from 1) from the gradients of a loss: clips and steps.  *grad_norm: before
 * clipping.  Fails, the weights as they were, as train_blocks_fail_nonfinite does. */
bool train_blocks_update(TrainBlocks *blocks, double *grad_norm, const OptimizerConfig *optimizer,
                         double loss, double lr, uint64_t step, Err *err);

/* ERR_NONFINITE: the loss, of an update or of held-out data as `what` says, or the gradient norm of
 * the last update is not finite; names the first tensor with such a value.  Returns false. */
bool train_blocks_fail_nonfinite(const TrainBlocks *blocks, uint64_t step, const char *what,
                                 double loss, double grad_norm, double lr, Err *err);

#endif
