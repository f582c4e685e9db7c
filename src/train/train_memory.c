#include "train_memory.h"

#include <stdio.h>

#include "activations.h"
#include "arena.h"
#include "batcher.h"
#include "log.h"
#include "optimizer.h"
#include "system_memory.h"

static const double MIB = 1 << 20;

size_t train_most_sequences(const Config *config, size_t micro_batch) {
    const ModelConfig *model = &config->model;
    bool is_task = config->finetune.task != TASK_NONE;
    if (!is_task && config->train.short_rate == 0) return micro_batch;
    /* windows, like the keys of full attention, are no more than the tokens */
    bool has_few_keys = model->attention == ATTENTION_FULL || model_pools(model);
    if (is_task && has_few_keys) return config->train.batch;
    size_t rows = has_few_keys ? CONFIG_SHORTEST_PIECE : params_largest_k(model);
    size_t most = micro_batch * model->n / rows;
    if (most < micro_batch) most = micro_batch;
    return is_task && most > config->train.batch ? config->train.batch : most;
}

static bool add(size_t *sum, size_t term) {
    *sum += term;
    return *sum >= term;
}

static bool fail_overflow(const Config *config, size_t micro_batch, Err *err) {
    return err_set(err, ERR_CONFIG,
                   "train.micro_batch: %zu sequences of %zu tokens do not fit the address space",
                   micro_batch, config->model.n);
}

bool train_memory(TrainMemory *out, const Config *config, const ParamTable *table,
                  size_t micro_batch, Err *err) {
    size_t n = config->model.n, tokens;
    *out = (TrainMemory){0};
    if (!size_mul(micro_batch, n, &tokens) || !batch_bytes(&out->batch, micro_batch, n) ||
        !size_mul(table->block_reals, sizeof(real), &out->weights) ||
        !size_mul(out->weights, optimizer_moments(&config->optimizer), &out->moments))
        return fail_overflow(config, micro_batch, err);
    if (!activations_bytes(&out->activations, &config->model,
                           train_most_sequences(config, micro_batch), tokens, ACTS_TRAINING, err))
        return false;
    out->gradients = out->weights;
    bool fits = add(&out->total, out->weights) && add(&out->total, out->gradients) &&
                add(&out->total, out->moments) && add(&out->total, out->activations) &&
                add(&out->total, out->batch);
    return fits || fail_overflow(config, micro_batch, err);
}

bool train_memory_check(const TrainMemory *m, const Config *config, size_t micro_batch, Err *err) {
    bool is_task = config->finetune.task != TASK_NONE;
    char limit[48] = "";
    size_t available = 0;
    bool known = system_memory_available(&available);
    if (known) snprintf(limit, sizeof limit, " of %.1f available", (double)available / MIB);
    log_info("memory: parameters %.1f MiB, gradients %.1f, moments %.1f, activations %.1f, batch "
             "%.1f; %.1f MiB%s; %zu sequences at a time%s",
             (double)m->weights / MIB, (double)m->gradients / MIB, (double)m->moments / MIB,
             (double)m->activations / MIB, (double)m->batch / MIB, (double)m->total / MIB, limit,
             micro_batch, is_task ? ", or as many tokens of shorter ones" : "");
    if (!known || m->total <= available) return true;
    return err_set(
        err, ERR_FAILED,
        "training needs %.1f MiB of memory, %.1f MiB are available: lower "
        "train.micro_batch (now %zu; the activations take %.1f MiB)%s%s",
        (double)m->total / MIB, (double)available / MIB, micro_batch, (double)m->activations / MIB,
        is_task ? "" : ", model.n or the model's size",
        config->model.recompute == RECOMPUTE_LAYER ? "" : ", or set train.recompute to layer");
}

static bool fits(const Config *config, const ParamTable *table, size_t micro_batch) {
    TrainMemory memory;
    Err ignored = {0}; /* what overflows does not fit */
    return train_memory(&memory, config, table, micro_batch, &ignored) &&
           memory.total <= config->train.memory;
}

/* The largest number of sequences, at most `most`, that fits; 0 if not even one does. */
static size_t largest_fit(const Config *config, const ParamTable *table, size_t most) {
    size_t low = 0, high = most;
    while (low < high) {
        size_t middle = low + (high - low + 1) / 2;
        if (fits(config, table, middle))
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

static bool fail_budget(const Config *config, const ParamTable *table, Err *err) {
    TrainMemory one;
    if (!train_memory(&one, config, table, 1, err)) return false;
    return err_set(
        err, ERR_CONFIG,
        "train.memory = %.1f MiB: one sequence of %zu tokens at a time needs %.1f MiB "
        "(weights, gradients and moments %.1f, activations %.1f): raise it, lower "
        "model.n or the model's size%s",
        (double)config->train.memory / MIB, config->model.n, (double)one.total / MIB,
        (double)(one.weights + one.gradients + one.moments) / MIB, (double)one.activations / MIB,
        config->model.recompute == RECOMPUTE_LAYER ? "" : ", or set train.recompute to layer");
}

bool train_micro_batch(size_t *out, const Config *config, const ParamTable *table, Err *err) {
    const TrainConfig *train = &config->train;
    *out = train->micro_batch ? train->micro_batch : train->batch;
    if (train->memory == 0 || config_is_given(config, "train.micro_batch")) return true;
    size_t most = largest_fit(config, table, train->batch);
    if (most == 0) return fail_budget(config, table, err);
    size_t parts = (train->batch + most - 1) / most;
    *out = (train->batch + parts - 1) / parts; /* as many parts, of even size */
    return true;
}
