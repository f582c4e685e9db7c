/* Memory-mapped token shards.
 * A shard holds tokens in text order, with `</s>` stored after the last line of each document, and
 * the length of every line in tokens, so that sequences of any n can be packed from it without
 * preparing again.  All numbers are little-endian.
 *
 *   offset  size  field              rule
 *   0       8     magic              "LFTOKENS"
 *   8       4     version            u32, 1; others refused
 *   12      4     header bytes       u32, 128
 *   16      8     tokens n           u64
 *   24      8     lines m            u64, m <= n
 *   32      8     documents d        u64, d <= m
 *   40      4     vocabulary size    u32, 6 to 2^24; every id is below it
 *   44      4     bytes of a token w u32, 2 where the vocabulary size is at most 65,536, else 4
 *   48      8     tokenizer hash     u64, XXH3 of the .model file
 *   56      8     payload checksum   u64, XXH3 of everything behind the header
 *   64      8     file size          u64, 128 + n*w rounded up to a multiple of 8 + 4*m, exactly
 *   72      48    zero               must be zero in version 1
 *   120     8     header checksum    u64, XXH3 of bytes 0 to 119
 *   128     n*w   tokens             u16 or u32; only `</s>` and `<unk>` of the special ids;
 * exactly d are `</s>` 0-7   zero               up to a multiple of 8 4*m   line lengths       u32,
 * at least 1, the `</s>` behind a line included; their sum is n */
#ifndef TOKEN_FILE_H
#define TOKEN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "io.h"

enum { TOKEN_FILE_VERSION = 1, TOKEN_FILE_HEADER = 128, TOKEN_FILE_MAX_VOCAB = 1 << 24 };

typedef struct TokenFile {
    Map map;
    const char *path;                  /* borrowed from token_file_open's caller, for messages */
    const unsigned char *tokens;       /* count ids, u16 or u32 little-endian (token_bytes) */
    const unsigned char *line_lengths; /* `lines` u32 little-endian */
    size_t count, lines, documents;
    size_t token_bytes; /* 2 or 4 */
    size_t vocab;
    uint64_t tokenizer_hash;
    uint64_t payload_hash;
} TokenFile;

/* Checks magic, version, sizes against the file size and the header's checksum; the payload's
 * checksum is only checked by token_file_verify (it reads everything).  path must outlive the
 * TokenFile. */
bool token_file_open(TokenFile *out, const char *path, Err *err);
void token_file_close(TokenFile *file); /* accepts a zeroed TokenFile */

/* The same for a file in memory, which must outlive the TokenFile. */
bool token_file_open_memory(TokenFile *out, const void *data, size_t size, const char *name,
                            Err *err);

/* The whole byte table: checksum, every id below vocab and no special but `</s>` and `<unk>`, line
 * lengths.  What passes can be read without further checks. */
bool token_file_verify(const TokenFile *file, Err *err);

/* Ids first..first+count-1 into ids. */
void token_file_read(uint32_t *ids, const TokenFile *file, size_t first, size_t count);

/* Adds how often each id occurs to counts (vocab). */
void token_file_histogram(uint64_t *counts, const TokenFile *file);

static inline size_t token_file_line_length(const TokenFile *file, size_t line) {
    return io_get_u32(file->line_lengths + 4 * line);
}

/* Writes a shard: lines in order, each document closed; atomic. */
typedef struct TokenWriter TokenWriter;

bool token_writer_open(TokenWriter **out, const char *path, size_t vocab, uint64_t tokenizer_hash,
                       Err *err);

/* A line of count ids; count = 0 does nothing. */
void token_writer_line(TokenWriter *writer, const uint32_t *ids, size_t count);

/* Stores `</s>`; false if the document had no token, in which case nothing is stored. */
bool token_writer_document_end(TokenWriter *writer);

/* Puts the file in its place and frees the writer, also on failure. The last document must have
 * been ended. */
bool token_writer_commit(TokenWriter *writer, Err *err);
void token_writer_abort(TokenWriter *writer); /* accepts NULL */

#endif
