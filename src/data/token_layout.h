/* Offsets and sizes of the byte table in include/token_file.h, for its reader and its writer. */
#ifndef TOKEN_LAYOUT_H
#define TOKEN_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "token_file.h"

#define TOKEN_MAGIC "LFTOKENS"

enum {
    TOKEN_AT_VERSION = 8,
    TOKEN_AT_HEADER_BYTES = 12,
    TOKEN_AT_COUNT = 16,
    TOKEN_AT_LINES = 24,
    TOKEN_AT_DOCUMENTS = 32,
    TOKEN_AT_VOCAB = 40,
    TOKEN_AT_TOKEN_BYTES = 44,
    TOKEN_AT_TOKENIZER_HASH = 48,
    TOKEN_AT_PAYLOAD_HASH = 56,
    TOKEN_AT_FILE_SIZE = 64,
    TOKEN_AT_ZERO = 72,
    TOKEN_AT_HEADER_HASH = 120
};

static inline size_t token_width(size_t vocab) {
    return vocab <= 65536 ? 2 : 4;
}

static inline uint64_t token_padded_bytes(uint64_t count, size_t width) {
    return (count * width + 7) / 8 * 8;
}

static inline uint64_t token_file_size(uint64_t count, size_t width, uint64_t lines) {
    return TOKEN_FILE_HEADER + token_padded_bytes(count, width) + 4 * lines;
}

#endif
