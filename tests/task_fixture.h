/* Small files of classification tasks, and reading them. */
#ifndef TASK_FIXTURE_H
#define TASK_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"
#include "task_file.h"

/* A configuration of the task; custom reads the columns text and label. */
FinetuneConfig task_fixture_config(TaskKind task);

/* Writes a file of the test's folder, with the folders that its name has; plain, unless the name
 * ends in .gz or .zst.  Ends the test on failure.  Returns its path: one of 8 rotating buffers. */
const char *task_fixture_write(const char *name, const void *text, size_t size);

/* Writes `text` as file `name` and reads it. */
bool task_fixture_read(TaskFile *out, const FinetuneConfig *config, const LabelSet *known,
                       const char *name, const char *text, TaskLabels labels, Err *err);

/* The same, labels needed and none known; ends the test on failure. */
TaskFile task_fixture_must_read(const FinetuneConfig *config, const char *name, const char *text);

/* The rows, "name of the class|text|second text\n" each; malloc'd. */
char *task_fixture_rows(const TaskFile *file);

/* Reads, compares the rows and frees. */
void task_fixture_check(const FinetuneConfig *config, const char *name, const char *text,
                        const char *rows);

#endif
