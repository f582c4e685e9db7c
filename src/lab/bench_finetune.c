#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "bench_measure.h"
#include "clock.h"
#include "finetune_setup.h"

enum { PAD_DEFAULT = 128, STEPS_DEFAULT = 50, WARMUP = 3 };

/* The same rows, each filled up to `pad` tokens; longer ones as they are. */
static bool pad_rows(TaskData *out, const TaskData *data, size_t pad, Err *err) {
    size_t total = 0;
    for (size_t i = 0; i < data->count; i++) {
        size_t length = task_data_length(data, i);
        total += length < pad ? pad : length;
    }
    *out = (TaskData){.count = data->count,
                      .start = malloc((data->count + 1) * sizeof *out->start),
                      .ids = malloc(total * sizeof *out->ids),
                      .labels = malloc(data->count * sizeof *out->labels),
                      .cut = data->cut,
                      .longest = data->longest < pad ? pad : data->longest};
    if (!out->start || !out->ids || !out->labels)
        return err_set(err, ERR_FAILED, "no memory for %zu padded tokens", total);
    out->start[0] = 0;
    for (size_t i = 0; i < data->count; i++) {
        size_t length = task_data_length(data, i), at = out->start[i], end = at + length;
        memcpy(out->ids + at, data->ids + data->start[i], length * sizeof *out->ids);
        for (; end < at + pad; end++) out->ids[end] = TOKEN_PAD;
        out->start[i + 1] = end;
        out->labels[i] = data->labels[i];
    }
    return true;
}

/* One update number `update` from 1, timed. */
static bool time_update(double *seconds, size_t *tokens, Finetune *f, const TaskData *data,
                        size_t count, uint64_t update, Err *err) {
    ClassStep step;
    double begin = clock_now_s();
    if (!class_trainer_step(&f->trainer, &step, f->rows, data, count, f->config.optimizer.lr,
                            update, err))
        return false;
    *seconds = clock_now_s() - begin;
    *tokens = step.tokens;
    return true;
}

/* Both forms of one update; which comes first alternates. */
static bool time_pair(BenchFinetune *out, double *ratio, Finetune *f, const TaskData *padded,
                      size_t update, Err *err) {
    size_t count = f->config.train.batch, tokens[2];
    double seconds[2];
    for (size_t i = 0; i < 2; i++) {
        size_t kind = (update + i) % 2; /* 1: padded */
        finetune_order(f->rows, f, (uint64_t)update * count, count);
        if (!time_update(&seconds[kind], &tokens[kind], f, kind ? padded : &f->train, count,
                         2 * update + i + 1, err))
            return false;
    }
    out->rows += count;
    for (size_t i = 0; i < count; i++)
        out->longer += task_data_length(&f->train, f->rows[i]) > out->pad;
    out->ragged_tokens += tokens[0];
    out->padded_tokens += tokens[1];
    out->ragged_s += seconds[0];
    out->padded_s += seconds[1];
    *ratio = seconds[1] / seconds[0];
    return true;
}

static bool time_all(BenchFinetune *out, Finetune *f, const TaskData *padded, Err *err) {
    double *ratios = malloc(out->steps * sizeof *ratios), unused;
    bool ok = ratios || err_set(err, ERR_FAILED, "no memory for %zu times", out->steps);
    BenchFinetune warmup = *out;
    for (size_t i = 0; ok && i < WARMUP; i++) ok = time_pair(&warmup, &unused, f, padded, i, err);
    double begin = clock_now_s(), cpu = bench_cpu_time();
    for (size_t i = 0; ok && i < out->steps; i++)
        ok = time_pair(out, &ratios[i], f, padded, WARMUP + i, err);
    if (ok) {
        out->cpu_share =
            (bench_cpu_time() - cpu) / (clock_now_s() - begin) / (double)bench_threads();
        bench_median(ratios, out->steps); /* sorts */
        out->ratio_low = ratios[(out->steps - 1) / 4];
        out->ratio_high = ratios[(3 * out->steps - 1) / 4];
    }
    free(ratios);
    return ok;
}

bool bench_finetune(BenchFinetune *out, const Config *config, const BenchFinetuneOptions *options,
                    Err *err) {
    Finetune f;
    TaskData padded = {0};
    *out = (BenchFinetune){.pad = options->pad ? options->pad : PAD_DEFAULT,
                           .steps = options->steps ? options->steps : STEPS_DEFAULT};
    if (!finetune_open(&f, config, err)) return false;
    bool ok = out->pad <= f.config.model.n ||
              err_set(err, ERR_CONFIG,
                      "--pad %zu: the model's sequences have at most model.n = %zu "
                      "tokens",
                      out->pad, f.config.model.n);
    ok = ok && pad_rows(&padded, &f.train, out->pad, err) &&
         finetune_begin_seed(&f, config->train.seed, err) && time_all(out, &f, &padded, err);
    if (ok) {
        double epochs = (double)out->rows / (double)f.train.count;
        out->ratio = out->padded_s / out->ragged_s;
        out->epoch_ragged_s = out->ragged_s / epochs;
        out->epoch_padded_s = out->padded_s / epochs;
    }
    task_data_free(&padded);
    finetune_close(&f);
    return ok;
}
