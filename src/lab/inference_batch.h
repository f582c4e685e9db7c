/* Buffers to run texts of a task through a model without training it. */
#ifndef INFERENCE_BATCH_H
#define INFERENCE_BATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "activations.h"
#include "batch.h"
#include "config.h"
#include "err.h"

/* For up to `sequences` texts at a time, of 4096 tokens or one sequence of n where that is more.
 * 0: as many as an evaluation during the fine-tuning takes, whose numbers then come back to the
 * last digit; 64 of a model that is only pretrained.  On failure either may be made; destroy
 * both. */
bool inference_batch_create(Activations *acts, Batch *batch, const Config *config, size_t sequences,
                            Err *err);

#endif
