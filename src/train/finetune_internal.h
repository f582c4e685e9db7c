/* What the files of finetune share. */
#ifndef FINETUNE_INTERNAL_H
#define FINETUNE_INTERNAL_H

#include "finetune.h"
#include "finetune_setup.h"

/* Training and validation rows as tokens, by data.valid or finetune.holdout; what they are is
 * logged. */
bool finetune_read_data(Finetune *finetune, Err *err);

/* Trains the seed that has begun, in its folder; out->checkpoint malloc'd. */
bool finetune_train_seed(FinetuneSeed *out, Finetune *finetune, Err *err);

/* "run_dir/seed-<s>/name" (TRAINING_PATH_SIZE bytes); name NULL: the folder. */
bool finetune_seed_path(char *out, const char *run_dir, uint64_t seed, const char *name, Err *err);

/* seed-<s>/result.json, and back.  A file that is not there leaves *found false; one of other rows
 * or of another checkpoint is an error. */
bool finetune_write_seed(const FinetuneSeed *seed, const Finetune *finetune, Err *err);
bool finetune_read_seed(FinetuneSeed *out, bool *found, const Finetune *finetune, uint64_t seed,
                        Err *err);

/* Mean, deviation and best seed from out->seeds. */
void finetune_summarize(FinetuneResult *out);

#endif
