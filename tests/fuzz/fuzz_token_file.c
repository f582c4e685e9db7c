/* Token shards from memory: as they are, and with both checksums made right, so that the rules
 * behind them are reached.  What verifies can be read to the last id, and writing its lines again
 * gives the same file. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "io.h"
#include "token_file.h"
#include "tokenizer.h"

static void must(bool condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "property violated: %s\n", what);
    abort();
}

/* Documents end where `</s>` stands last in a line; one elsewhere cannot be written again. */
static bool ends_only_lines(const TokenFile *f, const uint32_t *ids) {
    size_t at = 0;
    for (size_t l = 0; l < f->lines; l++) {
        size_t length = token_file_line_length(f, l);
        for (size_t i = 0; i + 1 < length; i++) {
            if (ids[at + i] == TOKEN_EOS) return false;
        }
        if (length == 1 && ids[at] == TOKEN_EOS) return false;
        at += length;
    }
    return true;
}

static void write_again(const TokenFile *f, const uint32_t *ids) {
    Err err = {0};
    char path[64];
    TokenWriter *w;
    Bytes again = {0};
    size_t at = 0;
    snprintf(path, sizeof path, "/tmp/fuzz-token-file-%ld", (long)getpid());
    must(token_writer_open(&w, path, f->vocab, f->tokenizer_hash, &err), "a shard can be created");
    for (size_t l = 0; l < f->lines; l++) {
        size_t length = token_file_line_length(f, l);
        bool ends = ids[at + length - 1] == TOKEN_EOS;
        token_writer_line(w, ids + at, length - ends);
        if (ends) must(token_writer_document_end(w), "a document with a line ends");
        at += length;
    }
    must(token_writer_commit(w, &err) && io_read_file(&again, path, SIZE_MAX / 2, &err),
         "it can be written");
    must(again.size == f->map.size && !memcmp(again.data, f->map.data, again.size),
         "it is the same file");
    io_bytes_free(&again);
    unlink(path);
}

static void try(const uint8_t *data, size_t size) {
    Err err = {0};
    TokenFile f;
    if (!token_file_open_memory(&f, data, size, "x.tok", &err)) {
        must(strncmp(err.msg, "x.tok: ", 7) == 0, "the message names the file");
        return;
    }
    if (!token_file_verify(&f, &err)) return;
    uint32_t *ids = malloc((f.count + 1) * sizeof *ids);
    uint64_t *counts = calloc(f.vocab, sizeof *counts);
    must(ids && counts, "memory");
    token_file_read(ids, &f, 0, f.count);
    token_file_histogram(counts, &f);
    if (ends_only_lines(&f, ids)) write_again(&f, ids);
    free(ids);
    free(counts);
}

int fuzz_one(const uint8_t *data, size_t size) {
    try(data, size);
    if (size < TOKEN_FILE_HEADER) return 0;
    uint8_t *sealed = malloc(size);
    must(sealed != NULL, "memory");
    memcpy(sealed, data, size);
    io_put_u64(sealed + 56, io_hash(sealed + TOKEN_FILE_HEADER, size - TOKEN_FILE_HEADER));
    io_put_u64(sealed + 120, io_hash(sealed, 120));
    try(sealed, size);
    free(sealed);
    return 0;
}
