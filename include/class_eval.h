/* A classifier over a whole data set, in batches of a token budget. */
#ifndef CLASS_EVAL_H
#define CLASS_EVAL_H

#include <stdbool.h>

#include "activations.h"
#include "class_score.h"
#include "params.h"
#include "task_data.h"

/* log_probs (data->count, classes), in the order of data, whatever order they are computed in (longest first). acts (mode
 * ACTS_INFERENCE) and batch have room for acts->max_B sequences and acts->max_total tokens, at
 * least one sequence of n. */
bool class_eval_predict(real *log_probs, Activations *acts, Batch *batch, const Params *params,
                        const ModelConfig *config, const TaskData *data, Err *err);

/* Scores log-probabilities of labelled data; predicted class = the largest, the first of equals. */
bool class_eval_score(ClassScore *out, const real *log_probs, const TaskData *data, size_t classes,
                      Err *err);

#endif
