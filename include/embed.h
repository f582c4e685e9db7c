/* Texts as vectors: hidden states of the encoder of a pretrained or fine-tuned model. */
#ifndef EMBED_H
#define EMBED_H

#include <stdbool.h>
#include <stddef.h>

#include "activations.h"
#include "batch.h"
#include "config.h"
#include "err.h"
#include "loaded_model.h"
#include "task_file.h"

typedef enum Pooling {
    POOLING_CLS, /* the hidden state of `<s>` */
    POOLING_MEAN /* the mean over all tokens of the sequence but `<s>` and `</s>`; zeros where there
                    are none */
} Pooling;

typedef struct Embedder {
    const LoadedModel *model; /* borrowed */
    Pooling pooling;
    FinetuneConfig task; /* how rows become tokens: embed_task */
    Activations acts;
    Batch batch;
    size_t rows;                          /* embedded so far */
    size_t cut;                           /* of them longer than n, and cut */
    size_t without_tokens, first_without; /* of them with no tokens, and the line of the first */
} Embedder;

/* The task that a fine-tuned model reads its texts by; for a pretrained one single texts, which are
 * the column or member `text` of a file, over-long ones keeping their head.  Strings are borrowed
 * from the model. */
FinetuneConfig embed_task(const LoadedModel *model);

/* Buffers for up to `batch` texts at a time; 0: see inference_batch.h. */
bool embedder_create(Embedder *out, const LoadedModel *model, Pooling pooling, size_t batch,
                     Err *err);
void embedder_destroy(Embedder *embedder); /* accepts a zeroed Embedder */

/* vectors (rows->count, width) overwritten, in the order of the rows. */
bool embedder_run(float *vectors, Embedder *embedder, const TaskFile *rows, Err *err);

#endif
