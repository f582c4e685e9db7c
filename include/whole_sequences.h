/* Sequences of exactly n tokens from token shards, for what is defined for whole sequences only.
 * (The packing of a training, batcher.h, keeps lines whole, so that nearly all of its sequences are
 * somewhat shorter.) */
#ifndef WHOLE_SEQUENCES_H
#define WHOLE_SEQUENCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "prepare.h"
#include "token_file.h"

typedef struct WholeSequences {
    size_t n;
    size_t count; /* sequences, at least 1 */
    TokenFile *files;
    size_t file_count;
    struct WholeStart {
        size_t file, token;
    } * starts; /* (count), in text order */
} WholeSequences;

/* A sequence is `<s>` and the n-1 tokens from the beginning of a line on, whatever lines and
 * documents they reach into; the next one begins at the next line that no earlier one has touched.
 * None reaches from one shard into another.  part must outlive the result.  ERR_FAILED with the
 * numbers where no shard has n-1 tokens. */
bool whole_sequences_open(WholeSequences *out, const ManifestPart *part, size_t n, Err *err);
void whole_sequences_close(WholeSequences *sequences); /* accepts a zeroed struct */

/* ids (n): item i of a sample of 1..count sequences that is spread evenly over the text, sequence
 * floor(i * count / sample). */
void whole_sequences_read(uint32_t *ids, const WholeSequences *sequences, size_t i, size_t sample);

#endif
