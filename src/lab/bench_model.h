/* A model with fresh weights and a batch of random ids: what the benchmarks run. */
#ifndef BENCH_MODEL_H
#define BENCH_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "activations.h"
#include "batch.h"
#include "config.h"
#include "err.h"
#include "params.h"
#include "train_blocks.h"

typedef struct BenchModel {
    const Config *config; /* borrowed */
    ParamTable table;
    TrainBlocks blocks; /* in inference of the weights alone */
    Activations acts;
    Batch batch;
} BenchModel;

/* Full-length sequences: `<s>`, then ids drawn uniformly, masked as in training.  Destroy the model
 * in any case. */
bool bench_batch_create(BenchModel *model, const Config *config, size_t sequences, Err *err);

/* Weights, what a training needs beside them, and activations for the batch of bench_batch_create,
 * without which ACTS_TRAINING fails. */
bool bench_model_create(BenchModel *model, ActMode mode, Err *err);
void bench_model_destroy(BenchModel *model); /* accepts a zeroed struct */

/* Makes every page of the model's memory resident, so that a pass that follows waits for none. */
void bench_model_touch(BenchModel *model);

/* Update number `step` from 1: forward, backward, clipping, optimizer.  The mean loss before it. */
double bench_model_step(BenchModel *model, uint64_t step);

/* Forgets the peak that threads_peak_rss tells; false where the system does not allow that. */
bool bench_reset_peak_rss(void);

#endif
