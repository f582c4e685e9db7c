#include "token_file.h"

#include <string.h>

#include "token_layout.h"
#include "tokenizer.h"

static bool fail(const TokenFile *f, Err *err, const char *what) {
    return err_set(err, ERR_FAILED, "%s: %s; prepare the data again", f->path, what);
}

/* The fields that give the layout, against each other and the file's size. */
static bool check_layout(TokenFile *f, const unsigned char *h, Err *err) {
    uint64_t count = io_get_u64(h + TOKEN_AT_COUNT), lines = io_get_u64(h + TOKEN_AT_LINES);
    uint64_t documents = io_get_u64(h + TOKEN_AT_DOCUMENTS),
             size = io_get_u64(h + TOKEN_AT_FILE_SIZE);
    uint32_t vocab = io_get_u32(h + TOKEN_AT_VOCAB), width = io_get_u32(h + TOKEN_AT_TOKEN_BYTES);
    if (vocab <= TOKEN_SPECIALS || vocab > TOKEN_FILE_MAX_VOCAB) {
        return err_set(err, ERR_FAILED,
                       "%s: vocabulary size %u, wanted %d to %d; prepare the data again", f->path,
                       vocab, TOKEN_SPECIALS + 1, TOKEN_FILE_MAX_VOCAB);
    }
    if (width != token_width(vocab)) {
        return err_set(
            err, ERR_FAILED,
            "%s: %u bytes a token, wanted %zu for a vocabulary of %u; prepare the data again",
            f->path, width, token_width(vocab), vocab);
    }
    if (lines > count || documents > lines) {
        return err_set(
            err, ERR_FAILED,
            "%s: %llu documents in %llu lines of %llu tokens cannot be; prepare the data again",
            f->path, (unsigned long long)documents, (unsigned long long)lines,
            (unsigned long long)count);
    }
    /* a count beyond the file's size is refused before it enters a product, so nothing overflows */
    bool fits = count <= f->map.size && token_file_size(count, width, lines) == f->map.size;
    if (!fits || size != f->map.size) {
        return err_set(err, ERR_FAILED,
                       "%s: %zu bytes, but its header says %llu tokens of %u bytes and %llu lines "
                       "in %llu bytes: "
                       "truncated? prepare the data again",
                       f->path, f->map.size, (unsigned long long)count, width,
                       (unsigned long long)lines, (unsigned long long)size);
    }
    f->count = (size_t)count;
    f->lines = (size_t)lines;
    f->documents = (size_t)documents;
    f->token_bytes = width;
    f->vocab = vocab;
    return true;
}

static bool parse(TokenFile *f, Err *err) {
    const unsigned char *h = f->map.data;
    if (f->map.size < TOKEN_FILE_HEADER) {
        return err_set(
            err, ERR_FAILED,
            "%s: %zu bytes, wanted a token shard, which has at least %d; prepare the data again",
            f->path, f->map.size, TOKEN_FILE_HEADER);
    }
    if (memcmp(h, TOKEN_MAGIC, 8) != 0)
        return fail(f, err, "no token shard (its first bytes are not \"LFTOKENS\")");
    uint32_t version = io_get_u32(h + TOKEN_AT_VERSION),
             header = io_get_u32(h + TOKEN_AT_HEADER_BYTES);
    if (version != TOKEN_FILE_VERSION) {
        return err_set(
            err, ERR_FAILED,
            "%s: token shard of version %u, this program reads %d; prepare the data again", f->path,
            version, TOKEN_FILE_VERSION);
    }
    if (header != TOKEN_FILE_HEADER) {
        return err_set(err, ERR_FAILED, "%s: header of %u bytes, wanted %d; prepare the data again",
                       f->path, header, TOKEN_FILE_HEADER);
    }
    uint64_t stored = io_get_u64(h + TOKEN_AT_HEADER_HASH),
             found = io_hash(h, TOKEN_AT_HEADER_HASH);
    if (stored != found) {
        return err_set(
            err, ERR_FAILED,
            "%s: damaged header: its checksum is %016llx, stored is %016llx; prepare the data "
            "again",
            f->path, (unsigned long long)found, (unsigned long long)stored);
    }
    for (size_t i = TOKEN_AT_ZERO; i < TOKEN_AT_HEADER_HASH; i++) {
        if (h[i]) return fail(f, err, "bytes 72 to 119 must be zero in version 1");
    }
    if (!check_layout(f, h, err)) return false;
    f->tokenizer_hash = io_get_u64(h + TOKEN_AT_TOKENIZER_HASH);
    f->payload_hash = io_get_u64(h + TOKEN_AT_PAYLOAD_HASH);
    f->tokens = h + TOKEN_FILE_HEADER;
    f->line_lengths = f->tokens + token_padded_bytes(f->count, f->token_bytes);
    return true;
}

bool token_file_open(TokenFile *out, const char *path, Err *err) {
    *out = (TokenFile){.path = path};
    if (!io_map(&out->map, path, err)) return false;
    if (parse(out, err)) return true;
    token_file_close(out);
    return false;
}

bool token_file_open_memory(TokenFile *out, const void *data, size_t size, const char *name,
                            Err *err) {
    *out = (TokenFile){.path = name, .map = {data, size}};
    if (parse(out, err)) return true;
    *out = (TokenFile){0};
    return false;
}

void token_file_close(TokenFile *file) {
    io_unmap(&file->map);
    *file = (TokenFile){0};
}

static uint32_t token_at(const TokenFile *f, size_t i) {
    const unsigned char *p = f->tokens + i * f->token_bytes;
    return f->token_bytes == 2 ? (uint32_t)(p[0] | p[1] << 8) : io_get_u32(p);
}

void token_file_read(uint32_t *ids, const TokenFile *file, size_t first, size_t count) {
    const unsigned char *p = file->tokens + first * file->token_bytes;
    if (file->token_bytes == 2) {
        for (size_t i = 0; i < count; i++) ids[i] = (uint32_t)(p[2 * i] | p[2 * i + 1] << 8);
    } else {
        for (size_t i = 0; i < count; i++) ids[i] = io_get_u32(p + 4 * i);
    }
}

void token_file_histogram(uint64_t *counts, const TokenFile *file) {
    for (size_t i = 0; i < file->count; i++) counts[token_at(file, i)]++;
}

static bool is_allowed(const TokenFile *f, uint32_t id) {
    return id < f->vocab && (id >= TOKEN_SPECIALS || id == TOKEN_EOS || id == TOKEN_UNK);
}

static bool fail_token(const TokenFile *f, size_t first, size_t count, Err *err) {
    for (size_t i = first; i < first + count; i++) {
        if (is_allowed(f, token_at(f, i))) continue;
        return err_set(err, ERR_FAILED,
                       "%s: token %zu is id %u, wanted %d, %d or %d to %zu; prepare the data again",
                       f->path, i, token_at(f, i), TOKEN_EOS, TOKEN_UNK, TOKEN_SPECIALS,
                       f->vocab - 1);
    }
    return true;
}

static bool verify_tokens(const TokenFile *f, Err *err) {
    enum { CHUNK = 4096 };
    uint32_t ids[CHUNK], vocab = (uint32_t)f->vocab;
    size_t documents = 0;
    for (size_t first = 0; first < f->count; first += CHUNK) {
        size_t count = f->count - first < CHUNK ? f->count - first : CHUNK;
        uint32_t bad = 0, ends = 0;
        token_file_read(ids, f, first, count);
        for (size_t i = 0; i < count; i++) { /* without branches: all the text passes here */
            uint32_t id = ids[i];
            bad |=
                (uint32_t)(id >= vocab) | (uint32_t)(id < TOKEN_EOS) | (uint32_t)(id == TOKEN_MASK);
            ends += id == TOKEN_EOS;
        }
        if (bad) return fail_token(f, first, count, err);
        documents += ends;
    }
    if (documents != f->documents) {
        return err_set(err, ERR_FAILED,
                       "%s: %zu document ends, its header says %zu; prepare the data again",
                       f->path, documents, f->documents);
    }
    for (size_t i = f->count * f->token_bytes; i % 8; i++) {
        if (f->tokens[i]) return fail(f, err, "the bytes between tokens and lines must be zero");
    }
    return true;
}

bool token_file_verify(const TokenFile *file, Err *err) {
    uint64_t found = io_hash(file->tokens, file->map.size - TOKEN_FILE_HEADER);
    if (found != file->payload_hash) {
        return err_set(
            err, ERR_FAILED,
            "%s: damaged: checksum %016llx, its header says %016llx; prepare the data again",
            file->path, (unsigned long long)found, (unsigned long long)file->payload_hash);
    }
    if (!verify_tokens(file, err)) return false;
    uint64_t sum = 0;
    for (size_t l = 0; l < file->lines; l++) {
        size_t length = token_file_line_length(file, l);
        if (length == 0) return fail(file, err, "a line of no tokens");
        sum += length;
    }
    if (sum != file->count) {
        return err_set(
            err, ERR_FAILED,
            "%s: lines of %llu tokens in all, its header says %zu; prepare the data again",
            file->path, (unsigned long long)sum, file->count);
    }
    return true;
}
