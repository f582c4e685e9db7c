/* A ragged batch: the concatenation of its sequences, without padding.  Filled by the data module,
 * read by the model. */
#ifndef BATCH_H
#define BATCH_H

#include <stddef.h>
#include <stdint.h>

typedef struct Batch {
    size_t B;     /* sequences */
    size_t total; /* tokens of all sequences */
    /* (B+1): sequence b owns rows start[b]..start[b+1]-1, at least one; start[0] = 0, start[B] =
     * total */
    size_t *start;
    uint32_t *ids; /* (total) token ids, masking already applied */
    /* (B) dropout key of each sequence; independent of its place in the batch */
    uint64_t *seq_key;
    size_t masked;         /* rows to predict, M */
    uint32_t *masked_rows; /* (M) rows in 0..total-1, ascending */
    uint32_t *labels;      /* (M) original token ids at those rows */
    uint32_t *classes;     /* (B) class of each sequence; read by the classification head only */
    uint32_t *scratch;     /* (3,n) of whoever fills the batch */
} Batch;

#endif
