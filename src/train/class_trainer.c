#include "class_trainer.h"

#include <assert.h>

#include "batcher.h"
#include "classifier_head.h"
#include "elementwise.h"
#include "encoder.h"
#include "log.h"
#include "optimizer.h"
#include "stop_signal.h"
#include "system_memory.h"

static const double MIB = 1 << 20;

size_t class_trainer_micro_tokens(const Config *config) {
    const TrainConfig *train = &config->train;
    return (train->micro_batch ? train->micro_batch : train->batch) * config->model.n;
}

static bool check_memory(const ClassTrainer *t, Err *err) {
    const Config *config = t->config;
    size_t block = 0, activations = 0, moments = optimizer_moments(&config->optimizer);
    if (!size_mul(t->table.block_reals, sizeof(real), &block))
        return err_set(err, ERR_CONFIG, "model: its size overflows");
    if (!activations_bytes(&activations, &config->model, config->train.batch, t->micro_tokens,
                           ACTS_TRAINING, err))
        return false;
    double b = (double)block, total = b * (double)(2 + moments) + (double)activations;
    size_t available = 0;
    bool known = system_memory_available(&available);
    log_info("memory: parameters %.1f MiB, gradients %.1f, moments %.1f, activations %.1f; %.1f "
             "MiB of %.1f available",
             b / MIB, b / MIB, b * (double)moments / MIB, (double)activations / MIB, total / MIB,
             (double)available / MIB);
    if (!known || total <= (double)available) return true;
    return err_set(err, ERR_FAILED,
                   "fine-tuning needs %.1f MiB of memory, %.1f MiB are available: lower "
                   "train.micro_batch (now %zu tokens at a time; the activations take %.1f MiB)",
                   total / MIB, (double)available / MIB, t->micro_tokens,
                   (double)activations / MIB);
}

bool class_trainer_create(ClassTrainer *out, const Config *config, Err *err) {
    const ModelConfig *model = &config->model;
    assert(model->classes > 1);
    *out = (ClassTrainer){.config = config, .micro_tokens = class_trainer_micro_tokens(config)};
    bool ok = param_table_create(&out->table, model, err) && check_memory(out, err) &&
              train_blocks_create(&out->blocks, &out->table, model, &config->optimizer, err) &&
              activations_create(&out->acts, model, config->train.batch, out->micro_tokens,
                                 ACTS_TRAINING, err) &&
              batch_create(&out->batch, out->micro_tokens / model->n, model->n, err);
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
    assert(t->acts.mode == ACTS_TRAINING && count > 0 && count <= t->acts.max_B);
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
