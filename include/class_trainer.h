/* A classifier in training, and the step it is trained by: what `finetune` repeats and `bench
 * finetune` measures. */
#ifndef CLASS_TRAINER_H
#define CLASS_TRAINER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "activations.h"
#include "batch.h"
#include "config.h"
#include "err.h"
#include "params.h"
#include "task_data.h"
#include "train_blocks.h"

typedef struct ClassTrainer {
    const Config *config; /* borrowed; model.vocab and model.classes are set */
    ParamTable table;
    TrainBlocks blocks;
    Activations acts; /* for an update's sequences, micro_tokens at a time; evaluation borrows it */
    Batch batch;
    size_t micro_tokens;
} ClassTrainer;

/* Sequences of n tokens that a micro-batch has room for: train.micro_batch, or where that is 0
 * train.batch.  Rows being ragged, more of them may fit: train_most_sequences. */
size_t class_trainer_micro_batch(const Config *config);

/* All of it in memory, weights and moments zero. The memory it takes is logged, and checked against
 * what there is. */
bool class_trainer_create(ClassTrainer *out, const Config *config, Err *err);
void class_trainer_destroy(ClassTrainer *trainer); /* accepts a zeroed trainer */

/* Gradients of the mean loss over rows[0..count), count up to train.batch, into the gradients
 * (overwritten); returns the loss summed over them.  rows is sorted by length and cut into
 * micro-batches of at most micro_tokens; nothing is padded.  Dropout is a function of (train.seed,
 * update, row).
 * A signal ends it early, with sums that are of no use: stop_signal_check tells. */
double class_trainer_gradients(ClassTrainer *trainer, size_t *rows, const TaskData *data,
                               size_t count, uint64_t update);

/* What one update was. */
typedef struct ClassStep {
    double loss; /* mean over its rows */
    double grad_norm;
    size_t tokens;
} ClassStep;

/* Gradients, clipping and optimizer: update number `update`, from 1.  ERR_NONFINITE as
 * train_blocks_update. */
bool class_trainer_step(ClassTrainer *trainer, ClassStep *out, size_t *rows, const TaskData *data,
                        size_t count, double lr, uint64_t update, Err *err);

#endif
