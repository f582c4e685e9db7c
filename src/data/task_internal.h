/* Shared by the readers of labelled texts (task_*.c): files become rows of one TaskFile. */
#ifndef TASK_INTERNAL_H
#define TASK_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shards.h"
#include "task_file.h"

/* Bytes within a buffer that somebody else owns. */
typedef struct Span {
    const char *text;
    size_t size;
} Span;

/* What a task reads. */
typedef struct TaskSpec {
    const char *name;    /* in the configuration */
    const char *text[2]; /* columns; text[1] NULL: one text */
    const char *label;   /* column; NULL: labels are not read */
    const char
        *classes[2]; /* names in the order of the classes; NULL: custom, found in the files */
    const char *words[2][2]; /* what else the files may call them; NULL: nothing */
} TaskSpec;

TaskSpec task_spec(const FinetuneConfig *config);

/* ---- task_labels.c: words to classes */

typedef struct LabelWord {
    char *word;
    int32_t class;
} LabelWord;

typedef struct LabelTable {
    LabelWord *items; /* in byte order */
    size_t count, capacity;
    bool open;    /* unknown words become classes, numbered as they come */
    LabelSet set; /* names of the classes of a table that is not open */
} LabelTable;

/* From the classes of the task, else the known ones, else open. */
bool label_table_create(LabelTable *out, const TaskSpec *spec, const LabelSet *known, Err *err);
void label_table_free(LabelTable *table);

/* Class of the word, or TASK_NO_LABEL. */
int32_t label_table_find(const LabelTable *table, Span word);

/* Adds a word of an open table as the next class. */
bool label_table_add(LabelTable *table, Span word, Err *err);

/* "0 or negative, 1 or positive": the words of the first classes, and how many there are. */
void label_table_describe(char *out, size_t size, const LabelTable *table);

/* The names of the classes, and the final class of each row: an open table's classes are put in
 * numeric order if all words are integers, else in byte order. */
bool label_table_finish(LabelSet *out, TaskRow *rows, size_t count, LabelTable *table, Err *err);

/* ---- task_lines.c: the text of a file */

typedef struct TaskText {
    char *base;           /* malloc'd; a NUL follows the last byte */
    const char *at, *end; /* what has not been read; a byte order mark is left out */
    size_t line;          /* of the line given last, from 1 */
} TaskText;

/* Where rows go, and what is being read. */
typedef struct TaskReader {
    TaskFile *out;
    size_t capacity; /* of out->rows */
    TaskSpec spec;
    TaskLabels labels;
    LabelTable table;
    const char *place; /* file being read; lives as long as out */
    const char *unit;  /* what the file calls its fields: "column" or "member" */
} TaskReader;

/* Reads the whole stream; refuses NUL and bytes that are no UTF-8, with their line. */
bool task_text_load(TaskText *out, TaskReader *r, ByteStream *stream, Err *err);
void task_text_free(TaskText *text);

/* The next line, without its end; *found false behind the last one that is not blank.  A blank line
 * before it is an error. */
bool task_text_line(bool *found, Span *line, TaskText *text, const TaskReader *r, Err *err);

/* ---- task_message.c: what messages are made of */

/* Fails with "place:line: " and the message. */
bool task_fail(const TaskReader *r, size_t line, Err *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The word (UTF-8) in at most size-1 bytes, cut between characters, control characters as `?`;
 * returns out. */
const char *task_show(char *out, size_t size, Span word);

/* Appends the text to a string of at most size-1 bytes, or leaves it out where it does not fit. */
void task_append(char *out, size_t size, const char *text);

/* ---- task_file.c */

/* Bytes that live as long as r->out: a copy, or a malloc'd block that is handed over (freed at once
 * where that fails). */
const char *task_store(TaskReader *r, const char *bytes, size_t size, Err *err);
bool task_adopt(TaskReader *r, char *block, Err *err);

/* Appends a row of r->place.  label: NULL where there is none; blanks around it are left out. */
bool task_add_row(TaskReader *r, const Span text[2], const Span *label, size_t line, Err *err);

/* Reads a file, or a folder of reviews, in whichever form it is. */
bool task_read_path(TaskReader *r, const char *path, Err *err);

/* ---- task_columns.c: the wanted ones among those of a file */

enum { TASK_COLUMNS = 3 }; /* text[0], text[1], label */

/* found: index into names of each wanted column, or SIZE_MAX where the task has no second text or
 * no labels are wanted. */
bool task_columns_find(size_t found[TASK_COLUMNS], const TaskReader *r, const Span *names,
                       size_t count, size_t line, Err *err);

/* ---- the forms of files; each appends all rows, or fails */

bool task_read_tsv(TaskReader *r, ByteStream *stream, Err *err);
bool task_read_jsonl(TaskReader *r, ByteStream *stream, Err *err);

/* Of the original IMDB layout: is it the name of a review, ID_RATING.txt? */
bool task_is_review(const char *path);
bool task_read_review(TaskReader *r, ByteStream *stream, Err *err);
bool task_read_review_folder(TaskReader *r, const char *folder, Err *err);

#endif
