/* Text shards -> token shards and manifest.json in config->data.tokens. */
#ifndef PREPARE_H
#define PREPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "err.h"

/* What the manifest says of the training or held-out part. */
typedef struct ManifestPart {
    uint64_t documents, lines, tokens, text_bytes;
    uint64_t unknown, dropped_bytes, split_lines, empty_documents;
    double unigram_entropy; /* nats, of the token distribution of this part; specials not counted */
    size_t shards;
    char **paths;           /* token shard files */
} ManifestPart;

typedef struct Manifest {
    ManifestPart train, valid;
    uint64_t tokenizer_hash;
    uint64_t data_hash;     /* of all token shards' checksums: identifies the data in checkpoints */
    size_t vocab;
} Manifest;

bool manifest_load(Manifest *out, const char *folder, Err *err);
void manifest_free(Manifest *manifest);

/* Prepares what is missing or stale (text file's size, modification time or hash, tokenizer hash, or program format version
 * changed), on config->train.threads threads, streaming; trains nothing.  Atomic per shard; the manifest is written last. */
bool prepare_run(const Config *config, Err *err);

/* True if the tokens of config are complete and current; a reason otherwise. */
bool prepare_is_current(const Config *config, char *reason, size_t reason_size);

#endif
