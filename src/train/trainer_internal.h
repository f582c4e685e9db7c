/* The state of one pretraining run, shared by set-up, step loop and tests. */
#ifndef TRAINER_INTERNAL_H
#define TRAINER_INTERNAL_H

#include "activations.h"
#include "batcher.h"
#include "budget.h"
#include "checkpoint.h"
#include "config.h"
#include "evaluation.h"
#include "log.h"
#include "params.h"
#include "prepare.h"
#include "run_log.h"
#include "tokenizer.h"
#include "train_blocks.h"
#include "trainer.h"

typedef struct Trainer {
    Config config; /* shallow copy of the caller's, with model.vocab filled in */
    Manifest manifest;
    Tokenizer *tokenizer;
    Dataset *train, *valid; /* valid NULL: no held-out text */
    BatchPlan plan;
    Budget budget;

    ParamTable table;
    TrainBlocks blocks;
    Activations acts; /* for the tokens of micro_batch sequences of n; evaluation borrows it */
    Batch batch;
    size_t micro_batch;
    Profile profile; /* of all updates, without evaluations and saves */

    TrainState state;
    RunLog log;
    int run_dir_lock; /* -1: none */
    double started_s; /* monotonic clock minus earlier training time */
    double window_s;  /* seconds and tokens of the updates since the last metrics line */
    uint64_t window_tokens;
    double logged_s; /* when the last metrics line went to the log */
} Trainer;

/* What one update was. */
typedef struct StepStats {
    double loss; /* mean over its masked tokens, 0 if there are none */
    double lr, grad_norm;
    size_t sequences, tokens, masked;
} StepStats;

/* Everything before step 0: run folder, data, memory, weights (fresh or from a checkpoint). *out is
 * destroyed on failure. */
bool trainer_create(Trainer *out, const Config *config, ResumeMode resume, Err *err);
void trainer_destroy(Trainer *trainer);

/* Gradients of the loss of samples first..first+count-1 into trainer->blocks.grads (overwritten);
 * masked: their masked tokens. Returns the loss summed over them. */
double trainer_gradients(Trainer *trainer, uint64_t first, size_t count, size_t masked);

/* One update. */
bool trainer_step(Trainer *trainer, StepStats *out, Err *err);

/* Writes last.ckpt; best.ckpt (weights only); step-<step>.ckpt as a second name of the last.ckpt
 * just written, and removes the oldest beyond checkpoint.keep. */
bool trainer_save_last(Trainer *trainer, Err *err);
bool trainer_save_best(Trainer *trainer, Err *err);
bool trainer_keep_step(Trainer *trainer, Err *err);

#endif
