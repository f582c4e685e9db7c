/* Sequences of a data set in shuffled order: which ones make up an update is a pure function of
 * (seed, sample number), so a cursor is one number and resuming seeks instead of reading everything
 * again. */
#ifndef BATCHER_H
#define BATCHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "batch.h"
#include "err.h"
#include "prepare.h"

typedef struct Dataset
    Dataset; /* the packed sequences of one part (train or held-out) over mapped token shards */

/* Packs full lines (sentences or paragraphs) of consecutive text into sequences of at most n
 * tokens, one `<s>` first; a line longer than n-1 is split; document ends are `</s>` and do not end
 * a sequence.  Every token of the shards is in exactly one sequence.  Fails if vocab or tokenizer
 * hash differ, or there is no sequence. */
bool dataset_open(Dataset **out, const ManifestPart *part, const Manifest *manifest, size_t n,
                  Err *err);
void dataset_close(Dataset *dataset);
size_t dataset_sequences(const Dataset *dataset);
size_t dataset_tokens(const Dataset *dataset); /* `<s>` of each sequence included */
size_t dataset_length(const Dataset *dataset,
                      size_t sequence); /* tokens of one sequence, `<s>` included */

typedef struct BatchPlan {
    uint64_t seed;
    double mask_rate;
    double short_rate; /* share of the training sequences that are cut into pieces */
    size_t n;
    size_t vocab;
    size_t most_sequences, most_tokens; /* of a training batch: at least 1 and n */
} BatchPlan;

/* What is next in the endless shuffled stream of training samples: sample s is sequence perm_e(s
 * mod S) of epoch e = s div S, S = dataset_sequences. */
typedef struct BatchCursor {
    uint64_t sample;
    size_t text; /* tokens of it that earlier batches hold, `<s>` apart; 0: none yet */
} BatchCursor;

/* Bytes of those arrays; false if that overflows or a token's row would not fit 32 bits. */
bool batch_bytes(size_t *out, size_t sequences, size_t n);

/* Arrays of a Batch for as many tokens as `sequences` sequences of n have, in sequences of any
 * lengths up to n; one allocation, batch_destroy frees. */
bool batch_create(Batch *out, size_t sequences, size_t n, Err *err);
void batch_destroy(Batch *batch);

/* Fills batch with what follows *cursor, before sample `end`, as much as the plan allows, and moves
 * *cursor behind it; a sample that is cut may be continued by the next batch.
 *
 * A sample is cut with probability short_rate (BERT's short_seq_prob; Devlin et al., arXiv
 * 1810.04805) into pieces of one length, drawn from CONFIG_SHORTEST_PIECE..n so that its logarithm
 * is uniform; the last piece is what is left over.  Each piece is a sequence of its own and begins
 * with `<s>`.  Pieces, masks (mlm_mask, of the whole sample) and dropout keys are functions of
 * (seed, epoch, sequence).  Returns the masked count (also in batch). */
size_t batch_fill_train(Batch *batch, BatchCursor *cursor, const Dataset *dataset,
                        const BatchPlan *plan, uint64_t end);

/* Real tokens, each `<s>` included, and masked tokens of samples first..first+count-1 without
 * filling a batch: the divisor of the update's loss and the tokens it consumes. */
void batch_count(size_t *tokens, size_t *masked, const Dataset *dataset, const BatchPlan *plan,
                 uint64_t first, size_t count);

/* Fills batch with items first..first+count-1 (ended by the sample's end) of a sample of
 * 1..dataset_sequences sequences, in text order: item i is sequence floor(i * S / sample), S =
 * dataset_sequences, so the sample is spread evenly over the whole text, and sample = S is all of
 * it.  Masks depend on the sequence alone (fixed across runs: two models are compared on the same
 * questions). */
size_t batch_fill_eval(Batch *batch, const Dataset *dataset, const BatchPlan *plan, size_t first,
                       size_t count, size_t sample);

#endif
