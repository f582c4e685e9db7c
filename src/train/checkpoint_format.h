/* What the writer and the reader of checkpoints share; the format is described in checkpoint.h. */
#ifndef CHECKPOINT_FORMAT_H
#define CHECKPOINT_FORMAT_H

#include <cJSON.h>

#include "checkpoint.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "tensors are written as they lie in memory: this program needs a little-endian processor"
#endif

enum {
    CKPT_VERSION = 1,
    CKPT_FIXED = 32,     /* bytes before the JSON header */
    CKPT_HASH_FROM = 24, /* the header checksum covers from here to the header's end */
    CKPT_ALIGN = 64,
    CKPT_MAX_HEADER = 1 << 24,
    CKPT_MAGIC_SIZE = 8
};

/* The kind that has labels. */
#define CKPT_CLASSIFIER "classifier"

extern const unsigned char checkpoint_magic[CKPT_MAGIC_SIZE];

#ifdef REAL_IS_DOUBLE
#define CKPT_DTYPE "F64"
#else
#define CKPT_DTYPE "F32"
#endif

/* The tensor table a file must have: weights, `moments` moment blocks, tokenizer; checksums 0.
 * *out malloc'd.  *data_bytes: length of the data section.  Fails when sizes overflow or memory
 * ends. */
bool checkpoint_entries_create(CheckpointEntry **out, size_t *count, uint64_t *data_bytes,
                               const ParamTable *table, size_t moments, size_t tokenizer_bytes,
                               Err *err);

/* Rounds up to CKPT_ALIGN. */
static inline uint64_t checkpoint_align(uint64_t offset) {
    return (offset + CKPT_ALIGN - 1) / CKPT_ALIGN * CKPT_ALIGN;
}

/* The JSON header as text; malloc'd, NULL without memory. */
char *checkpoint_header_write(const CheckpointContent *content, const CheckpointEntry *entries,
                              size_t count);

/* Fills kind, labels, config, state, table, moments, tokenizer_hash and entries from the JSON. */
bool checkpoint_header_parse(Checkpoint *out, uint64_t *data_bytes, const char *json, size_t size,
                             Err *err);

#endif
