/* A trained model ready for use: what a checkpoint holds, in memory. */
#ifndef LOADED_MODEL_H
#define LOADED_MODEL_H

#include <stdbool.h>

#include "arena.h"
#include "checkpoint.h"
#include "err.h"
#include "params.h"
#include "tokenizer.h"

typedef struct LoadedModel {
    Checkpoint checkpoint; /* its config describes the model */
    Arena arena;
    Params params; /* weights only */
    Tokenizer *tokenizer;
} LoadedModel;

/* Reads weights and tokenizer, verifying the whole file.  A precision that does not work here is
 * replaced by fp32, with a warning. */
bool loaded_model_open(LoadedModel *out, const char *path, Err *err);

/* Whether the model has the head that a command needs; else an error that says what it is instead
 * and what to give.  Models with neither do not exist: each has one. */
bool loaded_model_check_mlm(const LoadedModel *model, Err *err);
bool loaded_model_check_classifier(const LoadedModel *model, Err *err);

/* ERR_NONFINITE: `what` the model gave is not finite; names its first tensor that is not.  Returns
 * false. */
bool loaded_model_fail_nonfinite(const LoadedModel *model, const char *what, Err *err);

void loaded_model_close(LoadedModel *model); /* accepts a zeroed struct */

#endif
