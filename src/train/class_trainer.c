#include "class_trainer.h"

#include <assert.h>

#include "batcher.h"
#include "classifier_head.h"
#include "elementwise.h"
#include "encoder.h"
#include "stop_signal.h"
#include "train_memory.h"

size_t class_trainer_micro_batch(const Config *config) {
    return config->train.micro_batch ? config->train.micro_batch : config->train.batch;
}

static bool check_memory(const ClassTrainer *t, Err *err) {
    TrainMemory memory;
    size_t micro_batch = class_trainer_micro_batch(t->config);
    return train_memory(&memory, t->config, &t->table, micro_batch, err) &&
           train_memory_check(&memory, t->config, micro_batch, err);
}

bool class_trainer_create(ClassTrainer *out, const Config *config, Err *err) {
    const ModelConfig *model = &config->model;
    size_t micro_batch = class_trainer_micro_batch(config);
    assert(model->classes > 1);
    *out = (ClassTrainer){.config = config, .micro_tokens = micro_batch * model->n};
    bool ok = param_table_create(&out->table, model, err) && check_memory(out, err) &&
              train_blocks_create(&out->blocks, &out->table, model, &config->optimizer, err) &&
              activations_create(&out->acts, model, train_most_sequences(config, micro_batch),
                                 out->micro_tokens, ACTS_TRAINING, err) &&
              batch_create(&out->batch, micro_batch, model->n, err);
    if (!ok) class_trainer_destroy(out);
    return ok;
}

void class_trainer_destroy(ClassTrainer *t) {
    batch_destroy(&t->batch);
    activations_destroy(&t->acts);
    train_blocks_destroy(&t->blocks);
    param_table_destroy(&t->table);
    *t = (ClassTrainer){0};
}

double class_trainer_gradients(ClassTrainer *t, size_t *rows, const TaskData *data, size_t count,
                               uint64_t update) {
    const ModelConfig *model = &t->config->model;
    assert(t->acts.mode == ACTS_TRAINING && count > 0);
    double loss_sum = 0;
    vec_zero(t->blocks.grads.block, t->table.block_reals);
    task_rows_sort(rows, count, data);
    for (size_t done = 0, size; done < count && !stop_signal_caught(); done += size) {
        size = task_batch_fit(data, rows + done, count - done, t->acts.max_B, t->micro_tokens);
        task_batch_fill(&t->batch, data, rows + done, size, t->config->train.seed, update);
        encoder_forward(&t->acts, &t->blocks.weights, model, &t->batch);
        loss_sum += classifier_head_loss_backward(&t->acts, &t->blocks.grads, &t->blocks.weights,
                                                  model, &t->batch, 1 / (double)count);
        encoder_backward(&t->acts, &t->blocks.grads, &t->blocks.weights, model, &t->batch);
    }
    return loss_sum;
}

bool class_trainer_step(ClassTrainer *t, ClassStep *out, size_t *rows, const TaskData *data,
                        size_t count, double lr, uint64_t update, Err *err) {
    *out = (ClassStep){0};
    for (size_t i = 0; i < count; i++) out->tokens += task_data_length(data, rows[i]);
    out->loss = class_trainer_gradients(t, rows, data, count, update) / (double)count;
    if (!stop_signal_check(err)) return false; /* the weights stay as they were */
    return train_blocks_update(&t->blocks, &out->grad_norm, &t->config->optimizer, out->loss, lr,
                               update, err);
}
