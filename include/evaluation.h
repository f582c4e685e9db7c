/* Masked-language-model loss on held-out sequences with fixed masks. */
#ifndef EVALUATION_H
#define EVALUATION_H

#include <stdbool.h>

#include "activations.h"
#include "batcher.h"
#include "params.h"

/* Losses are compared at one rate whatever train.mask_rate is: fewer hidden neighbours make an
 * easier question. */
#define EVALUATION_MASK_RATE 0.15

typedef struct MlmScore {
    double loss;       /* nats a masked token */
    double perplexity; /* exp(loss) */
    size_t masked, tokens, sequences;
} MlmScore;

/* Over `sequences` sequences spread evenly over the text (0: all of them), EVALUATION_MASK_RATE of
 * their tokens hidden by masks that never change.  The result does not depend on the batch size
 * beyond rounding; sums are taken in text order.  acts and batch must have room for as many whole
 * sequences as acts->max_total says, at least one.  acts->mode must be ACTS_INFERENCE (no dropout);
 * plan->mask_rate is not read.  Fails only by a stop signal, ERR_SIGNAL. */
bool evaluation_mlm(MlmScore *out, Activations *acts, Batch *batch, const Params *params,
                    const ModelConfig *config, const Dataset *dataset, const BatchPlan *plan,
                    size_t sequences, Err *err);

#endif
