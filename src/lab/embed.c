#include "embed.h"

#include <math.h>
#include <stdlib.h>

#include "batcher.h"
#include "encoder.h"
#include "inference_batch.h"
#include "task_data.h"

FinetuneConfig embed_task(const LoadedModel *model) {
    static char text[] = "text", label[] = "label";
    const FinetuneConfig *task = &model->checkpoint.config.finetune;
    if (task->task != TASK_NONE) return *task;
    return (FinetuneConfig){.task = TASK_CUSTOM, .text = text, .label = label};
}

bool embedder_create(Embedder *out, const LoadedModel *model, Pooling pooling, size_t batch,
                     Err *err) {
    *out = (Embedder){.model = model, .pooling = pooling, .task = embed_task(model)};
    if (inference_batch_create(&out->acts, &out->batch, &model->checkpoint.config, batch, err))
        return true;
    embedder_destroy(out);
    return false;
}

void embedder_destroy(Embedder *embedder) {
    if (!embedder) return;
    activations_destroy(&embedder->acts);
    batch_destroy(&embedder->batch);
    *embedder = (Embedder){0};
}

static bool is_special(uint32_t id) {
    return id == TOKEN_BOS || id == TOKEN_EOS;
}

/* out (C): mean of the hidden states of a sequence's own tokens; zeros if it has none. */
static void mean_of_tokens(float *out, const real *hidden, const uint32_t *ids, size_t T,
                           size_t C) {
    size_t count = 0;
    for (size_t t = 0; t < T; t++) count += !is_special(ids[t]);
    for (size_t c = 0; c < C; c++) {
        double sum = 0;
        for (size_t t = 0; t < T; t++)
            if (!is_special(ids[t])) sum += (double)hidden[t * C + c];
        out[c] = count ? (float)(sum / (double)count) : 0;
    }
}

/* The vector of sequence b of the batch. */
static bool pool(float *out, const Embedder *e, size_t b, const TaskRow *row, Err *err) {
    size_t C = e->model->checkpoint.config.model.width, start = e->batch.start[b];
    const real *hidden = e->acts.hidden + start * C;
    if (e->pooling == POOLING_CLS) {
        for (size_t c = 0; c < C; c++) out[c] = (float)hidden[c];
    } else {
        mean_of_tokens(out, hidden, e->batch.ids + start, e->batch.start[b + 1] - start, C);
    }
    for (size_t c = 0; c < C; c++)
        if (!isfinite(out[c]))
            return err_set(err, ERR_NONFINITE,
                           "%s:%zu: the model gives values that are not finite; the training "
                           "behind %s has diverged, use another checkpoint",
                           row->place, row->line, e->model->checkpoint.path);
    return true;
}

static bool run(float *vectors, Embedder *e, const TaskFile *rows, const TaskData *data,
                size_t *order, Err *err) {
    const ModelConfig *config = &e->model->checkpoint.config.model;
    for (size_t i = 0; i < data->count; i++) order[i] = i;
    task_rows_sort(order, data->count, data);
    for (size_t done = 0, count; done < data->count; done += count) {
        count = task_batch_fit(data, order + done, data->count - done, e->acts.max_B,
                               e->acts.max_total);
        task_batch_fill(&e->batch, data, order + done, count, 0, 0);
        encoder_forward(&e->acts, &e->model->params, config, &e->batch);
        for (size_t b = 0; b < count; b++) {
            size_t row = order[done + b];
            if (!pool(vectors + row * config->width, e, b, &rows->rows[row], err)) return false;
        }
    }
    return true;
}

static void count_without_tokens(Embedder *e, const TaskData *data, const TaskFile *rows) {
    for (size_t i = 0; i < data->count; i++) {
        size_t t = data->start[i];
        while (t < data->start[i + 1] && is_special(data->ids[t])) t++;
        if (t == data->start[i + 1] && e->without_tokens++ == 0)
            e->first_without = rows->rows[i].line;
    }
}

bool embedder_run(float *vectors, Embedder *embedder, const TaskFile *rows, Err *err) {
    const LoadedModel *model = embedder->model;
    TaskData data = {0};
    size_t *order = malloc((rows->count + 1) * sizeof *order);
    bool ok = order || err_set(err, ERR_FAILED, "no memory for %zu rows", rows->count);
    ok = ok &&
         task_data_encode(&data, rows, &embedder->task, model->tokenizer,
                          model->checkpoint.config.model.n, err) &&
         run(vectors, embedder, rows, &data, order, err);
    if (ok) count_without_tokens(embedder, &data, rows);
    embedder->rows += data.count;
    embedder->cut += data.cut;
    task_data_free(&data);
    free(order);
    return ok;
}
