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

/* The most sequences of a micro-batch of micro_batch times n tokens: micro_batch, but where
 * train.short_rate cuts sequences and in a fine-tuning, whose texts are shorter than n, more.  Each
 * has k rows of projected keys and values, whatever its length, so that short ones have many times
 * the rows of their tokens; there is room for as many rows as tokens, and what has more is computed
 * in several micro-batches.  (In full attention and where the model pools there are never more rows
 * than tokens.)  In a fine-tuning never more than train.batch. */
size_t train_most_sequences(const Config *config, size_t micro_batch);

/* Of micro-batches of so many sequences of n tokens; for the thread count in force.  ERR_CONFIG
 * when sizes overflow. */
bool train_memory(TrainMemory *out, const Config *config, const ParamTable *table,
                  size_t micro_batch, Err *err);

/* Logs it, and checks it against the memory that the system has to give, where that is known:
 * ERR_FAILED. */
bool train_memory_check(const TrainMemory *memory, const Config *config, size_t micro_batch,
                        Err *err);

/* Sequences at a time: train.micro_batch where it is given, or no train.memory is; else as few as
 * make no more micro-batches than the most that fit into train.memory.  Never more than
 * train.batch.  ERR_CONFIG when the budget is too small for one sequence. */
bool train_micro_batch(size_t *out, const Config *config, const ParamTable *table, Err *err);

#endif
