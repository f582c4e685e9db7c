/* train.init: a pretraining that begins with the weights of an earlier one, on other text or with
 * another recipe.  Step, moments, schedule and data begin anew. */
#ifndef WARM_START_H
#define WARM_START_H

#include <stdbool.h>

#include "checkpoint.h"
#include "config.h"
#include "err.h"

/* Opens the checkpoint that config->train.init names.  Fails unless it is of a pretraining whose
 * `model` keys are the config's (dropouts and what only the first weights depend on apart): the
 * message names the key and both values. */
bool warm_start_open(Checkpoint *out, const Config *config, Err *err);

/* Puts the checkpoint's tokenizer at config->tokenizer.model where no file is; fails where another
 * one is.  The caller holds tokenizer_lock. */
bool warm_start_tokenizer(const Checkpoint *init, const Config *config, Err *err);

#endif
