/* Pretraining: the step loop, evaluation, checkpoints, resume, signals. */
#ifndef TRAINER_H
#define TRAINER_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"

typedef enum ResumeMode {
    RESUME_NEVER, /* a run directory that holds a checkpoint is an error that names --resume */
    RESUME_AUTO   /* continue from the newest valid checkpoint; start afresh if there is none */
} ResumeMode;

/* Runs `pretrain`: tokenizer and prepare where missing or stale, then training to the end of the
 * budget.  The text files of config must be known (config_resolve_data).  SIGTERM, SIGINT and
 * SIGUSR1 end it at the next micro-batch, or block of text, and what had not become a whole step is
 * dropped; a second SIGINT ends at once. err->code: ERR_NONFINITE, ERR_SIGNAL (saved, resumable, or
 * nothing trained yet), or as the fault asks. */
bool trainer_pretrain(const Config *config, ResumeMode resume, Err *err);

#endif
