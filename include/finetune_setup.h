/* What a fine-tuning has before its first step: the model with its new head, the rows as tokens,
 * and the memory of the steps.  `finetune` trains with it, `bench finetune` measures with it. */
#ifndef FINETUNE_SETUP_H
#define FINETUNE_SETUP_H

#include <stddef.h>
#include <stdint.h>

#include "checkpoint.h"
#include "class_trainer.h"
#include "config.h"
#include "err.h"
#include "task_data.h"
#include "tokenizer.h"

typedef struct Finetune {
    Config config;   /* shallow copy of the caller's, its model that of the checkpoint */
    Config of_seed;  /* the same for the seed at hand alone; what the trainer reads */
    Checkpoint init; /* zeroed: from scratch */
    Tokenizer *tokenizer;
    LabelSet labels;
    TaskData train, valid;
    uint64_t init_hash; /* of the checkpoint file, 0: none */
    uint64_t data_hash; /* of all rows as tokens and classes */
    double majority;    /* of the validation rows */
    ClassTrainer trainer;
    size_t *rows;    /* (train.batch) of an update */
    real *log_probs; /* (valid.count, classes) */
} Finetune;

/* Model and tokenizer from finetune.init, or fresh ones; the rows; memory.  A model key of the
 * config that differs from the checkpoint's is an error, dropouts and head_pooling apart.  What is
 * found is logged.  *out is closed on failure and must stay where it is. */
bool finetune_open(Finetune *out, const Config *config, Err *err);
void finetune_close(Finetune *finetune); /* accepts a zeroed struct */

/* Turns to a seed: weights, moments and configuration as they begin. */
bool finetune_begin_seed(Finetune *finetune, uint64_t seed, Err *err);

/* The rows of samples first..first+count-1 of the endless stream of the seed at hand: sample s is
 * row perm_e(s mod S) of epoch e = s div S, S = train.count. */
void finetune_order(size_t *rows, const Finetune *finetune, uint64_t first, size_t count);

/* True for the rows, of `count`, that finetune.holdout takes out of training: the nearest whole
 * number to that share, at least one and not all; the same ones for every seed. */
bool finetune_is_held_out(size_t row, size_t count, double share);

#endif
