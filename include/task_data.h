/* Texts of a task as token sequences: `<s> A </s>`, or `<s> A </s></s> B </s>` for pairs (RoBERTa's
 * form), cut to n where too long. */
#ifndef TASK_DATA_H
#define TASK_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "config.h"
#include "err.h"
#include "task_file.h"
#include "tokenizer.h"

typedef struct TaskData {
    size_t count;    /* sequences */
    size_t *start;   /* (count+1) */
    uint32_t *ids;   /* (start[count]) */
    int32_t *labels; /* (count) class or TASK_NO_LABEL */
    size_t cut;      /* sequences that were cut */
    size_t longest;  /* tokens of the longest sequence, after cutting */
} TaskData;

/* Encodes every row, on all threads; the result does not depend on their number.  Over-long inputs:
 * a pair loses tokens from the end of whichever text is longer at the moment (of equal ones, from
 * the second), so the shorter text stays whole where that is possible; a single text keeps its
 * head, its tail, or (both) half of the room from either end, an odd token from the head, by
 * config->truncate.  config->letters CASE_LOWER folds ASCII letters first.  An n without room for a
 * token of each text is an error (ERR_CONFIG).  A text without tokens gives `<s> </s>`. */
bool task_data_encode(TaskData *out, const TaskFile *file, const FinetuneConfig *config,
                      const Tokenizer *tokenizer, size_t n, Err *err);
void task_data_free(TaskData *data); /* accepts a zeroed TaskData */

static inline size_t task_data_length(const TaskData *data, size_t row) {
    return data->start[row + 1] - data->start[row];
}

/* Fills batch with the given rows, nothing masked; batch->classes is 0 where there is no label.  A
 * sequence's key is rng_key(seed, RNG_DROPOUT, epoch, row), so it does not depend on the place in
 * the batch.  The batch has room for the sequences and their tokens (batch_create). */
void task_batch_fill(Batch *batch, const TaskData *data, const size_t *rows, size_t count,
                     uint64_t seed, uint64_t epoch);

/* How many of rows[0..count), count > 0, make a batch: the first ones, up to max_sequences and
 * together at most max_tokens, but at least 1. */
size_t task_batch_fit(const TaskData *data, const size_t *rows, size_t count, size_t max_sequences,
                      size_t max_tokens);

/* Sorts rows by length, longest first, equal lengths by row: neighbours in a batch are then alike,
 * so threads get equal work. */
void task_rows_sort(size_t *rows, size_t count, const TaskData *data);

#endif
