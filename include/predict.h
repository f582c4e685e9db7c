/* Classes with probabilities for texts, by a fine-tuned model. */
#ifndef PREDICT_H
#define PREDICT_H

#include <stdbool.h>
#include <stddef.h>

#include "activations.h"
#include "batch.h"
#include "class_score.h"
#include "err.h"
#include "loaded_model.h"
#include "task_file.h"

typedef struct Predictor {
    const LoadedModel *model; /* borrowed */
    Activations acts;
    Batch batch;
    size_t rows; /* predicted so far */
    size_t cut;  /* of them longer than n, and cut as in training */
} Predictor;

/* Buffers for up to `batch` texts at a time; 0: the batches of an evaluation during training, whose
 * scores then come back to the last digit.  Other batches change no more than the rounding of the
 * probabilities.  Fails where the model is no classifier. */
bool predictor_create(Predictor *out, const LoadedModel *model, size_t batch, Err *err);
void predictor_destroy(Predictor *predictor); /* accepts a zeroed Predictor */

/* probabilities (rows->count, classes) overwritten, in the order of the rows; columns in the order
 * of model->checkpoint.labels.  Rows are pairs where the model's task has pairs. */
bool predictor_run(double *probabilities, Predictor *predictor, const TaskFile *rows, Err *err);

/* Scores rows that all have labels. */
bool predictor_score(ClassScore *out, Predictor *predictor, const TaskFile *rows, Err *err);

/* The most probable class of a row of probabilities, the first of equals. */
size_t predict_best(const double *probabilities, size_t classes);

#endif
