/* A small untrained classifier with a real tokenizer, as a checkpoint file. */
#ifndef CLASS_FIXTURE_H
#define CLASS_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "loaded_model.h"
#include "task_file.h"

/* The model of lab_fixture.h with a head for the classes `labels` (ended by NULL); finetune is the
 * section of the task as YAML, e.g. "task: sst2"; the batches of its training are of 5 sequences, 3
 * whole ones at a time.  The checkpoint is class.ckpt of the temporary folder.  Ends the test on
 * failure; free with loaded_model_close. */
void class_fixture_model(LoadedModel *out, const char *finetune, const char *const *labels);

/* Rows of made-up words, of 1 to 40 tokens and different lengths, a function of key; every row has
 * a label below `classes`.  Free with class_fixture_rows_free. */
void class_fixture_rows(TaskFile *out, size_t count, size_t classes, bool pairs, uint64_t key);
void class_fixture_rows_free(TaskFile *rows);

#endif
