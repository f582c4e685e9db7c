/* Token shards of known content, data sets on them, and batches of those. */
#ifndef BATCHER_FIXTURE_H
#define BATCHER_FIXTURE_H

#include "batcher.h"

enum { SHARDS_VOCAB = 300, SHARDS_HASH = 77, MAX_SHARDS = 4 };

/* Token shards written from given line lengths, and a manifest part that names them.  Token i of
 * all shards (document ends not counted) is id 5 + i mod (SHARDS_VOCAB - 5), so that its place can
 * be told. */
typedef struct Shards {
    Manifest manifest;
    ManifestShard items[MAX_SHARDS];
    size_t tokens, documents, capacity;
    uint32_t *ids; /* all tokens in order */
} Shards;

/* A shard in the temporary folder.  lengths: 0 ends a document; the last line's document is ended
 * in any case. */
void shards_add(Shards *s, const size_t *lengths, size_t count);

/* One of `lines` lines of up to `longest` tokens, or document ends, a function of key. */
void shards_add_random(Shards *s, size_t lines, size_t longest, uint64_t key);
void shards_free(Shards *s);

/* Ends the test if the data set does not open. */
Dataset *shards_open(const Shards *s, size_t n);

/* Of any size, nothing cut. */
BatchPlan batch_plan(size_t n, double mask_rate);

/* Samples first..first+count-1, which the plan allows at once; the masked count. */
size_t fill_batch(Batch *b, const Dataset *d, const BatchPlan *plan, uint64_t first, size_t count);

/* Checks what every batch promises. */
void check_batch(const Batch *b, size_t n);

/* Puts the original ids back. */
void unmask_batch(Batch *b);

#endif
