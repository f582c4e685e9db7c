#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "token_file.h"
#include "token_layout.h"
#include "tokenizer.h"

enum { BUFFER_SIZE = 1 << 16 };

struct TokenWriter {
    AtomicFile file;
    IoHash *hash; /* of the payload */
    FILE *
        lengths; /* line lengths, which follow all tokens: kept in an unnamed file, not in memory */
    char *path;
    int lengths_error;
    size_t width, vocab;
    uint64_t tokenizer_hash;
    uint64_t count, lines, documents;
    uint32_t line; /* tokens of the last line, still open for a `</s>`; 0: none */
    bool in_document;
    size_t filled;
    unsigned char buffer[BUFFER_SIZE];
};

/* A file without a name in the folder of path: gone with the process however that ends. */
static FILE *unnamed_file(const char *path) {
    size_t size = strlen(path) + sizeof ".lines.tmp." + 24;
    char *name = malloc(size);
    if (!name) return NULL;
    snprintf(name, size, "%s.lines.tmp.%ld", path, (long)getpid());
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w+b");
    int error = errno;
    if (fd >= 0) unlink(name);
    if (fd >= 0 && !file) close(fd);
    free(name);
    errno = error;
    return file;
}

bool token_writer_open(TokenWriter **out, const char *path, size_t vocab, uint64_t tokenizer_hash,
                       Err *err) {
    *out = NULL;
    TokenWriter *w = calloc(1, sizeof *w);
    if (!w) return err_set(err, ERR_FAILED, "%s: no memory", path);
    w->vocab = vocab;
    w->width = token_width(vocab);
    w->tokenizer_hash = tokenizer_hash;
    w->path = strdup(path);
    w->hash = io_hash_begin();
    if (!w->path || !w->hash) {
        err_set(err, ERR_FAILED, "%s: no memory", path);
        goto fail;
    }
    if (!io_atomic_open(&w->file, path, err)) goto fail;
    w->lengths = unnamed_file(path);
    if (!w->lengths) {
        err_set(err, ERR_FAILED, "%s: cannot create a temporary file beside it: %s", path,
                strerror(errno));
        goto fail;
    }
    unsigned char header[TOKEN_FILE_HEADER] = {0}; /* filled in when the counts are known */
    io_atomic_write(&w->file, header, sizeof header);
    *out = w;
    return true;
fail:
    token_writer_abort(w);
    return false;
}

static void flush_buffer(TokenWriter *w) {
    io_hash_add(w->hash, w->buffer, w->filled);
    io_atomic_write(&w->file, w->buffer, w->filled);
    w->filled = 0;
}

static void put_token(TokenWriter *w, uint32_t id) {
    if (w->filled + 4 > BUFFER_SIZE) flush_buffer(w);
    for (size_t i = 0; i < w->width; i++) w->buffer[w->filled++] = (unsigned char)(id >> (8 * i));
    w->count++;
}

static void close_line(TokenWriter *w) {
    if (w->line == 0) return;
    unsigned char field[4];
    io_put_u32(field, w->line);
    errno = 0;
    if (fwrite(field, 1, sizeof field, w->lengths) != sizeof field && !w->lengths_error) {
        w->lengths_error = errno ? errno : EIO;
    }
    w->lines++;
    w->line = 0;
}

void token_writer_line(TokenWriter *w, const uint32_t *ids, size_t count) {
    if (count == 0) return;
    close_line(w);
    for (size_t i = 0; i < count; i++) put_token(w, ids[i]);
    w->line = (uint32_t)count;
    w->in_document = true;
}

bool token_writer_document_end(TokenWriter *w) {
    if (!w->in_document) return false;
    put_token(w, TOKEN_EOS);
    w->line++;
    w->documents++;
    w->in_document = false;
    return true;
}

/* Copies the lengths behind the tokens. */
static void append_lengths(TokenWriter *w) {
    errno = 0;
    if (!w->lengths_error && (fflush(w->lengths) != 0 || fseek(w->lengths, 0, SEEK_SET) != 0)) {
        w->lengths_error = errno ? errno : EIO;
    }
    uint64_t left = 4 * w->lines;
    while (!w->lengths_error && left > 0) {
        size_t want = left < BUFFER_SIZE ? (size_t)left : BUFFER_SIZE;
        if (fread(w->buffer, 1, want, w->lengths) != want) {
            w->lengths_error = errno ? errno : EIO;
            break;
        }
        w->filled = want;
        flush_buffer(w);
        left -= want;
    }
}

static void write_header(TokenWriter *w) {
    unsigned char h[TOKEN_FILE_HEADER] = {0};
    memcpy(h, TOKEN_MAGIC, 8);
    io_put_u32(h + TOKEN_AT_VERSION, TOKEN_FILE_VERSION);
    io_put_u32(h + TOKEN_AT_HEADER_BYTES, TOKEN_FILE_HEADER);
    io_put_u64(h + TOKEN_AT_COUNT, w->count);
    io_put_u64(h + TOKEN_AT_LINES, w->lines);
    io_put_u64(h + TOKEN_AT_DOCUMENTS, w->documents);
    io_put_u32(h + TOKEN_AT_VOCAB, (uint32_t)w->vocab);
    io_put_u32(h + TOKEN_AT_TOKEN_BYTES, (uint32_t)w->width);
    io_put_u64(h + TOKEN_AT_TOKENIZER_HASH, w->tokenizer_hash);
    io_put_u64(h + TOKEN_AT_PAYLOAD_HASH, io_hash_end(w->hash));
    w->hash = NULL;
    io_put_u64(h + TOKEN_AT_FILE_SIZE, token_file_size(w->count, w->width, w->lines));
    io_put_u64(h + TOKEN_AT_HEADER_HASH, io_hash(h, TOKEN_AT_HEADER_HASH));
    errno = 0;
    if (!w->file.error && fseek(w->file.file, 0, SEEK_SET) != 0)
        w->file.error = errno ? errno : EIO;
    io_atomic_write(&w->file, h, sizeof h);
}

bool token_writer_commit(TokenWriter *w, Err *err) {
    close_line(w);
    flush_buffer(w);
    w->filled = (size_t)(token_padded_bytes(w->count, w->width) - w->count * w->width);
    memset(w->buffer, 0, w->filled);
    flush_buffer(w);
    append_lengths(w);
    write_header(w);
    bool ok = false;
    if (w->lengths_error) {
        err_set(err, ERR_FAILED, "%s: cannot write a temporary file beside it: %s", w->path,
                strerror(w->lengths_error));
    } else {
        ok = io_atomic_commit(&w->file, err);
    }
    token_writer_abort(w);
    return ok;
}

void token_writer_abort(TokenWriter *w) {
    if (!w) return;
    io_atomic_abort(&w->file);
    if (w->lengths) fclose(w->lengths);
    io_hash_end(w->hash);
    free(w->path);
    free(w);
}
