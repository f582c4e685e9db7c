#include "inference_batch.h"

#include "batcher.h"
#include "class_trainer.h"

/* Enough for efficient matrix products; some hundred MiB in a model of base size. */
enum { TOKENS = 4096 };

bool inference_batch_create(Activations *acts, Batch *batch, const Config *config, size_t sequences,
                            Err *err) {
    const ModelConfig *model = &config->model;
    size_t total = TOKENS > model->n ? TOKENS : model->n;
    if (sequences == 0) {
        sequences = config->train.batch;
        total = class_trainer_micro_tokens(config);
    }
    if (sequences > total) sequences = total; /* none is without a token */
    size_t whole = (total + model->n - 1) / model->n;
    return activations_create(acts, model, sequences, total, ACTS_INFERENCE, err) &&
           batch_create(batch, whole, model->n, err);
}
