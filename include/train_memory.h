/* What a training allocates, by purpose, and how many sequences at a time fit into a budget. */
#ifndef TRAIN_MEMORY_H
#define TRAIN_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"
#include "params.h"

typedef struct TrainMemory {
    size_t weights, gradients, moments, activations, batch;
    size_t total; /* their sum */
} TrainMemory;

/* Of micro-batches of so many sequences of n tokens; for the thread count in force.  ERR_CONFIG
 * when sizes overflow. */
bool train_memory(TrainMemory *out, const Config *config, const ParamTable *table,
                  size_t micro_batch, Err *err);

/* Sequences at a time: train.micro_batch where it is given, or no train.memory is; else as few as
 * make no more micro-batches than the most that fit into train.memory.  Never more than
 * train.batch.  ERR_CONFIG when the budget is too small for one sequence. */
bool train_micro_batch(size_t *out, const Config *config, const ParamTable *table, Err *err);

#endif
