/* A classifier over a whole data set, in batches of a token budget. */
#ifndef CLASS_EVAL_H
#define CLASS_EVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "activations.h"
#include "class_score.h"
#include "params.h"
#include "task_data.h"

/* log_probs (data->count, classes), in the order of data, whatever order they are computed in
 * (longest first). acts (mode ACTS_INFERENCE) and batch have room for acts->max_B sequences and
 * acts->max_total tokens, at least one sequence of n. */
bool class_eval_predict(real *log_probs, Activations *acts, Batch *batch, const Params *params,
                        const ModelConfig *config, const TaskData *data, Err *err);

/* The class predicted from a row of log-probabilities: the largest, the first of equals. */
int32_t class_eval_best(const real *log_probs, size_t classes);

/* Scores log-probabilities of labelled data, with class_eval_best as predictions. */
bool class_eval_score(ClassScore *out, const real *log_probs, const TaskData *data, size_t classes,
                      Err *err);

#endif
