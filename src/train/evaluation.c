#include "evaluation.h"

#include <math.h>

#include "encoder.h"
#include "mlm_head.h"

void evaluation_mlm(MlmScore *out, Activations *acts, Batch *batch, const Params *params, const ModelConfig *config,
                    const Dataset *dataset, const BatchPlan *plan, size_t sequences) {
    size_t all = dataset_sequences(dataset);
    if (sequences == 0 || sequences > all) sequences = all;
    *out = (MlmScore){.sequences = sequences};
    double sum = 0;
    for (size_t first = 0; first < sequences; first += acts->max_B) {
        size_t count = sequences - first < acts->max_B ? sequences - first : acts->max_B;
        batch_fill_eval(batch, dataset, plan, first, count);
        out->tokens += batch->total;
        out->masked += batch->masked;
        if (batch->masked == 0) continue;
        encoder_forward(acts, params, config, batch);
        sum += mlm_head_loss(acts, params, config, batch);
    }
    out->loss = out->masked ? sum / (double)out->masked : 0;
    out->perplexity = exp(out->loss);
}
