/* Labelled texts from the files of a classification task.
 *
 *   sst2    TSV with a header: sentence, label (0 negative, 1 positive)
 *   qnli    TSV with a header: question, sentence, label (entailment, not_entailment)
 *   qqp     TSV with a header: question1, question2, is_duplicate (0 not_duplicate, 1 duplicate)
 *   imdb    TSV with a header: text, label (0 negative, 1 positive); or files of the original
 *           layout, .../pos/ID_RATING.txt and .../neg/ID_RATING.txt, a review a file, in which line
 *           ends, tabs, `<br />` tags and U+0080 to U+009F are read as spaces and several spaces as
 *           one; or a folder that holds pos/ and neg/ (read in the order neg, pos)
 *   custom  columns that the configuration names, all different (asserted)
 *
 * TSV is GLUE's: columns by name in any order, further columns ignored, no quoting and no escaping.
 * Files whose names end in .jsonl are JSON lines instead, an object a line with the columns as its
 * members; texts are strings, a label is a string, an integer or a boolean.  Labels may be the
 * names of the classes too.  Any of these files may be .gz or .zst. */
#ifndef TASK_FILE_H
#define TASK_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "err.h"

/* Names of the classes; index = class.  Stored in the checkpoint. */
typedef struct LabelSet {
    char **names;
    size_t count;
} LabelSet;

void label_set_free(LabelSet *labels); /* accepts a zeroed set */
bool label_set_copy(LabelSet *out, const LabelSet *labels, Err *err);

/* 2..TASK_MAX_CLASSES names of UTF-8, none empty, all different; else ERR_FAILED. */
bool label_set_check(const LabelSet *labels, Err *err);

enum { TASK_NO_LABEL = -1, TASK_MAX_CLASSES = 1000 };

/* All pointers last until task_file_free. */
typedef struct TaskRow {
    const char *text[2]; /* UTF-8, not terminated; text[1] is NULL for tasks of one text */
    size_t size[2];
    int32_t label;     /* class, or TASK_NO_LABEL */
    const char *place; /* file, for messages */
    size_t line;       /* in that file, from 1 */
} TaskRow;

typedef struct TaskFile {
    TaskRow *rows; /* in the order of the files and their lines */
    size_t count;
    bool pairs;
    LabelSet labels;
    struct TaskStorage *storage;
} TaskFile;

typedef enum TaskLabels {
    TASK_LABELS_NEEDED,  /* training and evaluation: a missing or empty label is an error */
    TASK_LABELS_IGNORED, /* prediction: labels are not looked at, if there are any */
} TaskLabels;

/* Reads all files.  Classes of custom tasks: those of `known` (a checkpoint's) where it is not
 * NULL, else the distinct label words of the files, in numeric order if all are integers, else in
 * byte order; the other tasks have theirs.  ERR_FAILED with "file:line: found, wanted, remedy" for:
 * a column that the header lacks (names those it has), the columns of another task, a row with too
 * few or too many columns, a blank line before the last row, an empty text (not under
 * TASK_LABELS_IGNORED), a label that is not among the classes, GLUE's test files (label -1) where
 * labels are needed, a file without rows, fewer than two classes in training data (known NULL and
 * labels needed), NUL, text that is no UTF-8.  CR LF is LF; a byte order mark and blank lines at
 * the end are left out.  On failure *out is empty. */
bool task_file_read(TaskFile *out, const FinetuneConfig *config, const LabelSet *known,
                    const PathList *paths, TaskLabels labels, Err *err);

/* The same of one file in memory, e.g. standard input.  `name` is used in messages, and its ending
 * tells the form, as that of a path does. */
bool task_file_read_memory(TaskFile *out, const FinetuneConfig *config, const LabelSet *known,
                           const void *data, size_t size, const char *name, TaskLabels labels,
                           Err *err);
void task_file_free(TaskFile *file); /* accepts a zeroed TaskFile */

bool task_is_pair(const FinetuneConfig *config);

#endif
