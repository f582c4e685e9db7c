#include "evaluation.h"

#include <assert.h>
#include <math.h>

#include "encoder.h"
#include "mlm_head.h"
#include "stop_signal.h"

bool evaluation_mlm(MlmScore *out, Activations *acts, Batch *batch, const Params *params,
                    const ModelConfig *config, const Dataset *dataset, const BatchPlan *plan,
                    size_t sequences, Err *err) {
    BatchPlan fixed = *plan;
    fixed.mask_rate = EVALUATION_MASK_RATE;
    size_t all = dataset_sequences(dataset);
    if (sequences == 0 || sequences > all) sequences = all;
    *out = (MlmScore){.sequences = sequences};
    /* whole sequences that fit at a time: acts for a training on pieces have room for more of those
     */
    size_t fit = acts->max_total / config->n;
    assert(fit > 0 && fit <= acts->max_B);
    double sum = 0;
    for (size_t done = 0; done < sequences; done += fit) {
        size_t count = sequences - done < fit ? sequences - done : fit;
        if (!stop_signal_check(err)) return false;
        batch_fill_eval(batch, dataset, &fixed, done, count, sequences);
        out->tokens += batch->total;
        out->masked += batch->masked;
        if (batch->masked == 0) continue;
        encoder_forward(acts, params, config, batch);
        sum += mlm_head_loss(acts, params, config, batch);
    }
    out->loss = out->masked ? sum / (double)out->masked : 0;
    out->perplexity = exp(out->loss);
    return true;
}
