#include "train_memory.h"

#include "activations.h"
#include "arena.h"
#include "batcher.h"
#include "optimizer.h"
#include "trainer.h"

static const double MIB = 1 << 20;

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
    size_t sequences =
        config->model.classes ? micro_batch : trainer_most_sequences(config, micro_batch);
    if (!activations_bytes(&out->activations, &config->model, sequences, tokens, ACTS_TRAINING,
                           err))
        return false;
    out->gradients = out->weights;
    bool fits = add(&out->total, out->weights) && add(&out->total, out->gradients) &&
                add(&out->total, out->moments) && add(&out->total, out->activations) &&
                add(&out->total, out->batch);
    return fits || fail_overflow(config, micro_batch, err);
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
