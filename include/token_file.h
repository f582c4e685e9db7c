/* Memory-mapped token shards.  (The author of src/data keeps the byte table of the format here.)
 * A shard holds tokens in text order, with `</s>` stored after the last line of each document, and the length of every
 * line in tokens, so that sequences of any n can be packed from it without preparing again. */
#ifndef TOKEN_FILE_H
#define TOKEN_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "io.h"

typedef struct TokenFile {
    Map map;
    const unsigned char *tokens;      /* count ids, u16 or u32 little-endian (token_bytes) */
    const unsigned char *line_ends;   /* as the byte table says */
    size_t count, lines, documents;
    size_t token_bytes;               /* 2 or 4 */
    size_t vocab;
    uint64_t tokenizer_hash;
} TokenFile;

/* Checks magic, version, sizes against the file size and the header's checksum; the payload's checksum is only checked by
 * token_file_verify (it reads everything). */
bool token_file_open(TokenFile *out, const char *path, Err *err);
bool token_file_verify(const TokenFile *file, Err *err);
void token_file_close(TokenFile *file);

#endif
