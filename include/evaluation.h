/* Masked-language-model loss on held-out sequences with fixed masks. */
#ifndef EVALUATION_H
#define EVALUATION_H

#include <stdbool.h>

#include "activations.h"
#include "batcher.h"
#include "params.h"

typedef struct MlmScore {
    double loss;        /* nats a masked token */
    double perplexity;  /* exp(loss) */
    size_t masked, tokens, sequences;
} MlmScore;

/* Over the first `sequences` sequences in text order (0: all).  The result does not depend on the batch size beyond rounding; sums are
 * taken in sequence order. acts may be of either mode: dropout must be off, so ACTS_INFERENCE. */
void evaluation_mlm(MlmScore *out, Activations *acts, Batch *batch, const Params *params, const ModelConfig *config,
                    const Dataset *dataset, const BatchPlan *plan, size_t sequences);

#endif
