#include "predict.h"

#include <math.h>
#include <stdlib.h>

#include "batcher.h"
#include "class_eval.h"
#include "inference_batch.h"
#include "task_data.h"

bool predictor_create(Predictor *out, const LoadedModel *model, size_t batch, Err *err) {
    *out = (Predictor){.model = model};
    if (!loaded_model_check_classifier(model, err)) return false;
    if (model->checkpoint.config.finetune.task == TASK_NONE)
        return err_set(err, ERR_FAILED,
                       "%s: a classifier whose config has no finetune.task, which says how texts "
                       "are read; wanted a checkpoint of `linformer finetune`",
                       model->checkpoint.path);
    bool ok =
        inference_batch_create(&out->acts, &out->batch, &model->checkpoint.config, batch, err);
    if (!ok) predictor_destroy(out);
    return ok;
}

void predictor_destroy(Predictor *predictor) {
    if (!predictor) return;
    activations_destroy(&predictor->acts);
    batch_destroy(&predictor->batch);
    *predictor = (Predictor){0};
}

/* A checkpoint of a run that went wrong is no reason to print something. */
static bool check_finite(const real *log_probs, const TaskFile *rows, size_t classes,
                         const char *checkpoint, Err *err) {
    for (size_t i = 0; i < rows->count * classes; i++) {
        const TaskRow *row = &rows->rows[i / classes];
        /* minus infinity is a probability of 0 */
        if (isnan(log_probs[i]) || log_probs[i] > 0.5)
            return err_set(err, ERR_NONFINITE,
                           "%s:%zu: the model gives no finite probabilities; the training behind "
                           "%s has diverged, use another checkpoint",
                           row->place, row->line, checkpoint);
    }
    return true;
}

/* log_probs (count, classes) malloc'd; data holds the tokens of the rows. */
static bool run(real **log_probs, TaskData *data, Predictor *p, const TaskFile *rows, Err *err) {
    const Checkpoint *checkpoint = &p->model->checkpoint;
    const ModelConfig *config = &checkpoint->config.model;
    *log_probs = calloc(rows->count * config->classes + 1, sizeof **log_probs);
    if (!*log_probs) return err_set(err, ERR_FAILED, "no memory for %zu rows", rows->count);
    if (!task_data_encode(data, rows, &checkpoint->config.finetune, p->model->tokenizer, config->n,
                          err) ||
        !class_eval_predict(*log_probs, &p->acts, &p->batch, &p->model->params, config, data, err))
        return false;
    p->rows += data->count;
    p->cut += data->cut;
    return check_finite(*log_probs, rows, config->classes, checkpoint->path, err);
}

bool predictor_run(double *probabilities, Predictor *predictor, const TaskFile *rows, Err *err) {
    size_t classes = predictor->model->checkpoint.config.model.classes;
    real *log_probs = NULL;
    TaskData data = {0};
    bool ok = run(&log_probs, &data, predictor, rows, err);
    for (size_t i = 0; ok && i < rows->count * classes; i++)
        probabilities[i] = exp((double)log_probs[i]);
    task_data_free(&data);
    free(log_probs);
    return ok;
}

bool predictor_score(ClassScore *out, Predictor *predictor, const TaskFile *rows, Err *err) {
    size_t classes = predictor->model->checkpoint.config.model.classes;
    real *log_probs = NULL;
    TaskData data = {0};
    *out = (ClassScore){0};
    bool ok = run(&log_probs, &data, predictor, rows, err) &&
              class_eval_score(out, log_probs, &data, classes, err);
    task_data_free(&data);
    free(log_probs);
    return ok;
}

size_t predict_best(const double *probabilities, size_t classes) {
    size_t best = 0;
    for (size_t c = 1; c < classes; c++)
        if (probabilities[c] > probabilities[best]) best = c;
    return best;
}
