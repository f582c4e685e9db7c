/* Text shards -> token shards and manifest.json in config->data.tokens. */
#ifndef PREPARE_H
#define PREPARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "err.h"

/* What a shard or a part holds.  Every token that comes out of the text is in `tokens`, which is
 * the encoded ones plus one `</s>` a document. */
typedef struct TextTotals {
    uint64_t documents, lines, tokens, text_bytes;
    uint64_t unknown, dropped_bytes, split_lines, empty_documents;
    uint64_t longest_line; /* bytes, the largest of the shards */
} TextTotals;

/* Name and value of total i, for those who list them all; NULL past the last. */
const char *text_totals_member(uint64_t *value, const TextTotals *totals, size_t i);

/* One text shard and the token shard made of it. */
typedef struct ManifestShard {
    char *path;         /* token shard file */
    char *text_path;    /* absolute */
    uint64_t text_size; /* bytes of the text file as stored */
    int64_t text_mtime_ns;
    uint64_t text_hash;    /* io_hash of the text file as stored */
    uint64_t payload_hash; /* of the token shard */
    TextTotals totals;
    bool ready; /* the token shard is that of the text; a manifest in memory only */
} ManifestShard;

/* What the manifest says of the training or held-out part. */
typedef struct ManifestPart {
    TextTotals totals;
    double unigram_entropy; /* nats, of the token distribution of this part; specials not counted; 0
                               without tokens */
    ManifestShard *shards;  /* (shard_count), in the config's order */
    size_t shard_count;
} ManifestPart;

typedef struct Manifest {
    ManifestPart train, valid;
    uint64_t tokenizer_hash;
    uint64_t data_hash; /* of all token shards' checksums: identifies the data in checkpoints */
    size_t vocab;
    char *normalizer; /* the tokenizer's normalisation rules, for the record */
    bool complete;    /* false: a preparation ended early; some shards, no totals, no data_hash */
} Manifest;

/* Reads <folder>/manifest.json; or a manifest of any name, whose token shards are beside it. */
bool manifest_load(Manifest *out, const char *folder, Err *err);
bool manifest_load_file(Manifest *out, const char *path, Err *err);
void manifest_free(Manifest *manifest); /* accepts a zeroed Manifest */

/* Prepares what is missing or stale (text file's size, modification time or hash, tokenizer hash,
 * or program format version changed), on config->train.threads threads, streaming; trains nothing.
 * Atomic per shard; the complete manifest is written last, one of what is done so far now and then,
 * so that the next preparation goes on from there. The tokens do not depend on the number of
 * threads.  Text that is both training and held-out text is refused.  A stop signal ends it with
 * ERR_SIGNAL. */
bool prepare_run(const Config *config, Err *err);

/* The lock of those who prepare tokens, or open them and must have them stay what they are. */
bool prepare_lock(int *lock, const Config *config, Err *err);

/* True if the tokens of config are complete and current; a reason otherwise. */
bool prepare_is_current(const Config *config, char *reason, size_t reason_size);

#endif
