/* Texts without labels to be classified or embedded, a block of rows at a time: arguments, the
 * lines of a stream, or a task's file. */
#ifndef TEXT_SOURCE_H
#define TEXT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "config.h"
#include "err.h"
#include "task_file.h"

typedef struct TextSource TextSource;

/* Where pairs, a text or line is two texts with a tab between them.  CR LF is LF, and a byte order
 * mark before the first line is skipped.  strings and stream are borrowed until close. */
bool text_source_open_strings(TextSource **out, const char *const *strings, size_t count,
                              bool pairs, Err *err);
bool text_source_open_lines(TextSource **out, FILE *stream, const char *name, bool pairs, Err *err);

/* Reads the whole file (task_file.h, TASK_LABELS_IGNORED). */
bool text_source_open_file(TextSource **out, const FinetuneConfig *config, const char *path,
                           Err *err);
void text_source_close(TextSource *source); /* accepts NULL */

/* The next rows, at most `most`; count 0 at the end.  Their texts are borrowed until the next call
 * or close, and *rows is not task_file_free's.  Every line of a stream is a row, a blank one with
 * an empty text, or two.  A stream is read no further than the block, and a block has at most 17
 * MiB of text.  ERR_FAILED with "name:line: found, wanted" for a text that is no UTF-8 or holds a
 * NUL byte, a blank argument, a line of more than 1 MiB, and a pair that is none. */
bool text_source_next(TaskFile *rows, TextSource *source, size_t most, Err *err);

/* Lines of a stream that may not be what was meant; 0 for arguments and files. */
typedef struct TextNotes {
    size_t lines;
    size_t empty, first_empty;   /* with an empty text, and the first of them */
    size_t tabbed, first_tabbed; /* with a tab in the only text */
} TextNotes;

/* Of the lines given so far. */
TextNotes text_source_notes(const TextSource *source);

#endif
