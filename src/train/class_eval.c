#include "class_eval.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "classifier_head.h"
#include "encoder.h"
#include "stop_signal.h"

bool class_eval_predict(real *log_probs, Activations *acts, Batch *batch, const Params *params,
                        const ModelConfig *config, const TaskData *data, Err *err) {
    size_t classes = config->classes;
    assert(acts->mode == ACTS_INFERENCE);
    assert(data->longest <= config->n && data->longest <= acts->max_total);
    size_t *rows = malloc((data->count + 1) * sizeof *rows); /* malloc(0) may be NULL */
    if (!rows) return err_set(err, ERR_FAILED, "no memory for the order of %zu rows", data->count);
    for (size_t i = 0; i < data->count; i++) rows[i] = i;
    task_rows_sort(rows, data->count, data);
    bool ok = true;
    for (size_t done = 0, count; done < data->count && ok; done += count) {
        count = task_batch_fit(data, rows + done, data->count - done, acts->max_B, acts->max_total);
        task_batch_fill(batch, data, rows + done, count, 0, 0);
        encoder_forward(acts, params, config, batch);
        classifier_head_log_probs(acts, params, config, batch);
        for (size_t b = 0; b < count; b++)
            memcpy(log_probs + rows[done + b] * classes, acts->class_logits + b * classes,
                   classes * sizeof *log_probs);
        ok = stop_signal_check(err);
    }
    free(rows);
    return ok;
}

int32_t class_eval_best(const real *log_probs, size_t classes) {
    size_t best = 0;
    for (size_t c = 1; c < classes; c++)
        if (log_probs[c] > log_probs[best]) best = c;
    return (int32_t)best;
}

bool class_eval_score(ClassScore *out, const real *log_probs, const TaskData *data, size_t classes,
                      Err *err) {
    *out = (ClassScore){0};
    int32_t *predicted = malloc((data->count + 1) * sizeof *predicted);
    if (!predicted) return err_set(err, ERR_FAILED, "no memory for %zu predictions", data->count);
    double loss_sum = 0; /* in the order of the rows: the same whatever the batches were */
    for (size_t i = 0; i < data->count; i++) {
        const real *row = log_probs + i * classes;
        int32_t truth = data->labels[i];
        predicted[i] = class_eval_best(row, classes);
        if (truth >= 0 && (size_t)truth < classes) loss_sum -= (double)row[truth];
    }
    bool ok =
        class_score_compute(out, data->labels, predicted, data->count, classes, loss_sum, err);
    free(predicted);
    return ok;
}
