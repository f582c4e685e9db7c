#include "inference_batch.h"

#include "batcher.h"
#include "class_trainer.h"
#include "train_memory.h"

/* Enough for efficient matrix products; some hundred MiB in a model of base size. */
enum { TOKENS = 4096, TEXTS = 64 };

bool inference_batch_create(Activations *acts, Batch *batch, const Config *config, size_t sequences,
                            Err *err) {
    const ModelConfig *model = &config->model;
    size_t total = TOKENS > model->n ? TOKENS : model->n;
    if (sequences == 0 && config->finetune.task == TASK_NONE) {
        sequences = TEXTS;
    } else if (sequences == 0) {
        size_t micro_batch = class_trainer_micro_batch(config);
        sequences = train_most_sequences(config, micro_batch);
        total = micro_batch * model->n;
    }
    if (sequences > total) sequences = total; /* none is without a token */
    size_t whole = (total + model->n - 1) / model->n;
    return activations_create(acts, model, sequences, total, ACTS_INFERENCE, err) &&
           batch_create(batch, whole, model->n, err);
}
