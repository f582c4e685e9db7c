/* Small fine-tunings for tests: a task whose two classes a single word tells apart, a pretraining
 * of a few steps with its tokenizer, and runs in processes of their own. */
#ifndef FINETUNE_FIXTURE_H
#define FINETUNE_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "finetune.h"
#include "trainer_fixture.h"

enum { TASK_ROWS = 320, TASK_VALID_ROWS = 96 };

/* Pretrains 5 steps into the temporary folder's `pre`, and writes train.tsv (TASK_ROWS rows),
 * dev.tsv (TASK_VALID_ROWS) and task.yaml: columns text and label, classes "sky" and "water", from
 * scratch, 3 epochs of batches of 16, one thread. */
void task_write(void);

/* A file of `rows` rows, a function of key. */
void task_write_rows(const char *name, size_t rows, uint64_t key);

/* Replaces task.yaml's section of the task, e.g. "task: sst2, init: none". */
void task_write_config(const char *finetune);

/* The configuration with outputs in the temporary folder's `run`, then the overrides (NULL at the
 * end). */
void task_config(Config *out, const char *run, const char *const *overrides);
const char *task_init(void); /* "finetune.init=<the pretraining's last.ckpt>"; static */

/* finetune_run in a child process. */
RunResult run_finetune(const char *run, ResumeMode resume, const char *const *overrides);

/* The same, not waited for; run_wait ends it. */
pid_t start_finetune(const char *run, ResumeMode resume, const char *const *overrides);

#endif
