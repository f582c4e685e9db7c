/* Is the model that a config describes that of the checkpoint it begins with? */
#ifndef SAME_MODEL_H
#define SAME_MODEL_H

#include <stdbool.h>

#include "config.h"
#include "err.h"

/* What is taken over from the checkpoint. */
typedef enum TakenOver {
    TAKEN_MODEL,  /* finetune.init: the whole model section, so that only keys that the config gives
                     can contradict it */
    TAKEN_WEIGHTS /* train.init: the tensors, for the config's own model; what only their first
                     values depend on may differ */
} TakenOver;

/* ERR_CONFIG unless the `model` keys are those the checkpoint's config has, dropouts and
 * head_pooling apart: the message names the key, where it was given, and both values. */
bool same_model_check(const Config *config, const Config *stored, TakenOver taken, Err *err);

#endif
