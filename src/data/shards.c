#include "shards.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "io.h"
#include "token_layout.h"

enum { STORED_CHUNK = 1 << 17, ZSTD_WINDOW_LOG = 27 };

typedef enum Kind { KIND_PLAIN, KIND_GZIP, KIND_ZSTD } Kind;

struct ByteStream {
    char *name;
    Kind kind;
    int fd;                      /* -1: memory */
    const unsigned char *memory; /* the whole file, if in memory */
    uint64_t file_size;
    uint64_t position; /* bytes taken from the file into `stored` */
    IoHash *hash;      /* of the bytes taken */
    uint64_t hash_value;
    bool ended;   /* the file has no more bytes */
    bool inside;  /* within a gzip member or zstd frame */
    bool checked; /* the first bytes have been looked at */
    unsigned char *stored;
    size_t at, filled; /* unread part of `stored` */
    z_stream gzip;
    bool gzip_ready;
    ZSTD_DCtx *zstd;
};

bool name_ends_with(const char *name, const char *ending) {
    size_t n = strlen(name), e = strlen(ending);
    return n >= e && memcmp(name + n - e, ending, e) == 0;
}

bool name_is_json_lines(const char *name) {
    static const char *const formats[] = {".jsonl", ".json", ".ndjson"};
    static const char *const packings[] = {"", ".gz", ".zst"};
    char ending[16];
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
        for (size_t p = 0; p < sizeof packings / sizeof *packings; p++) {
            snprintf(ending, sizeof ending, "%s%s", formats[f], packings[p]);
            if (name_ends_with(name, ending)) return true;
        }
    }
    return false;
}

static bool prepare_stream(ByteStream *s, Err *err) {
    s->kind = name_ends_with(s->name, ".gz")    ? KIND_GZIP
              : name_ends_with(s->name, ".zst") ? KIND_ZSTD
                                                : KIND_PLAIN;
    s->stored = malloc(STORED_CHUNK);
    s->hash = io_hash_begin();
    if (!s->stored || !s->hash) goto no_memory;
    if (s->kind == KIND_GZIP) {
        if (inflateInit2(&s->gzip, 15 + 16) != Z_OK)
            goto no_memory; /* 15: largest window; +16: gzip only */
        s->gzip_ready = true;
    } else if (s->kind == KIND_ZSTD) {
        s->zstd = ZSTD_createDCtx();
        if (!s->zstd) goto no_memory;
        ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG);
    }
    return true;
no_memory:
    return err_set(err, ERR_FAILED, "%s: no memory to read it", s->name);
}

static ByteStream *stream_create(const char *name) {
    ByteStream *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->fd = -1;
    s->name = strdup(name);
    if (s->name) return s;
    free(s);
    return NULL;
}

bool byte_stream_open(ByteStream **out, const char *path, Err *err) {
    *out = NULL;
    ByteStream *s = stream_create(path);
    if (!s) return err_set(err, ERR_FAILED, "%s: no memory to read it", path);
    FileInfo info;
    s->fd = io_open_regular(&info, path, err);
    if (s->fd >= 0) {
        s->file_size = info.size;
        if (prepare_stream(s, err)) {
            *out = s;
            return true;
        }
    }
    byte_stream_close(s);
    return false;
}

bool byte_stream_open_memory(ByteStream **out, const void *data, size_t size, const char *name,
                             Err *err) {
    *out = NULL;
    ByteStream *s = stream_create(name);
    if (!s) return err_set(err, ERR_FAILED, "%s: no memory to read it", name);
    s->memory = data;
    s->file_size = size;
    if (!prepare_stream(s, err)) {
        byte_stream_close(s);
        return false;
    }
    *out = s;
    return true;
}

void byte_stream_close(ByteStream *s) {
    if (!s) return;
    if (s->fd >= 0) close(s->fd);
    if (s->gzip_ready) inflateEnd(&s->gzip);
    ZSTD_freeDCtx(s->zstd);
    io_hash_end(s->hash);
    free(s->stored);
    free(s->name);
    free(s);
}

const char *byte_stream_name(const ByteStream *s) {
    return s->name;
}

uint64_t byte_stream_file_size(const ByteStream *s) {
    return s->file_size;
}

uint64_t byte_stream_file_position(const ByteStream *s) {
    return s->position;
}

uint64_t byte_stream_file_hash(const ByteStream *s) {
    return s->hash_value;
}

/* Refills `stored`, which has been used up. */
static bool fill_stored(ByteStream *s, Err *err) {
    s->at = s->filled = 0;
    while (s->filled < STORED_CHUNK && !s->ended) {
        size_t room = STORED_CHUNK - s->filled;
        ssize_t n;
        if (s->fd >= 0) {
            n = read(s->fd, s->stored + s->filled, room);
            if (n < 0 && errno == EINTR) continue;
            if (n < 0) {
                return err_set(err, ERR_FAILED, "%s: cannot read at byte %llu: %s", s->name,
                               (unsigned long long)s->position, strerror(errno));
            }
        } else {
            uint64_t left = s->file_size - s->position;
            n = (ssize_t)(left < room ? left : room);
            if (n > 0) memcpy(s->stored + s->filled, s->memory + s->position, (size_t)n);
        }
        if (n == 0) s->ended = true;
        io_hash_add(s->hash, s->stored + s->filled, (size_t)n);
        s->filled += (size_t)n;
        s->position += (uint64_t)n;
    }
    return true;
}

typedef struct Signature {
    const char *bytes;
    size_t size;
    const char *what, *remedy;
} Signature;

static const Signature signatures[] = {
    {"\x1F\x8B", 2, "gzip data", "name the file .gz"},
    {"\x28\xB5\x2F\xFD", 4, "zstd data", "name the file .zst"},
    {"BZh", 3, "bzip2 data", "unpack it first"},
    {"\xFD"
     "7zXZ",
     5, "xz data", "unpack it first"},
    {"PK\x03\x04", 4, "a zip archive", "unpack it first"},
    {"LFCKPT\r\n", 8, "a checkpoint", "name the text"},
    {TOKEN_MAGIC, 8, "a token shard of `prepare`", "name the text it was made from"},
    {"PAR1", 4, "a Parquet file", "convert it to JSON lines first"},
    {"\xFF\xFE", 2, "UTF-16 text", "convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)"},
    {"\xFE\xFF", 2, "UTF-16 text", "convert it to UTF-8 first (iconv -f UTF-16 -t UTF-8)"},
};

static bool starts_with(const ByteStream *s, const char *bytes, size_t size) {
    return s->filled >= size && memcmp(s->stored, bytes, size) == 0;
}

/* The content's first bytes against the name's promise. */
static bool check_start(ByteStream *s, Err *err) {
    s->checked = true;
    if (s->kind == KIND_PLAIN) {
        for (size_t i = 0; i < sizeof signatures / sizeof *signatures; i++) {
            const Signature *g = &signatures[i];
            if (!starts_with(s, g->bytes, g->size)) continue;
            return err_set(err, ERR_FAILED, "%s: holds %s, wanted UTF-8 text: %s", s->name, g->what,
                           g->remedy);
        }
        return true;
    }
    bool gzip = s->kind == KIND_GZIP;
    if (s->filled == 0) {
        return err_set(err, ERR_FAILED, "%s: 0 bytes, wanted %s data", s->name,
                       gzip ? "gzip" : "zstd");
    }
    bool good = gzip ? starts_with(s, "\x1F\x8B", 2)
                     /* a skippable frame may come first: magic 0x184D2A50 to 0x184D2A5F */
                     : starts_with(s, "\x28\xB5\x2F\xFD", 4) ||
                           (s->filled >= 4 && (s->stored[0] & 0xF0) == 0x50 &&
                            memcmp(s->stored + 1, "\x2A\x4D\x18", 3) == 0);
    if (good) return true;
    return err_set(err, ERR_FAILED,
                   "%s: no %s data (its first byte is 0x%02x): give plain text another ending",
                   s->name, gzip ? "gzip" : "zstd", s->stored[0]);
}

static bool fail_at(const ByteStream *s, const char *what, const char *why, Err *err) {
    uint64_t offset = s->position - (s->filled - s->at);
    return err_set(err, ERR_FAILED, "%s: %s at byte %llu of %llu%s%s", s->name, what,
                   (unsigned long long)offset, (unsigned long long)s->file_size, why ? ": " : "",
                   why ? why : "");
}

/* After a gzip member: another one, or zeros up to the end (padding of tapes and block devices). */
static bool next_member(ByteStream *s, Err *err) {
    if (s->stored[s->at] == 0) {
        while (s->at < s->filled && s->stored[s->at] == 0) s->at++;
        if (s->at == s->filled) return true;
    } else if (s->stored[s->at] == 0x1F) {
        s->inside = true;
        if (inflateReset(&s->gzip) == Z_OK) return true;
    }
    return fail_at(s, "bytes that are no gzip data follow the compressed text", NULL, err);
}

static bool read_gzip(size_t *got, ByteStream *s, unsigned char *buffer, size_t capacity,
                      Err *err) {
    if (!s->inside && !next_member(s, err)) return false;
    if (!s->inside) return true;
    s->gzip.next_in = s->stored + s->at;
    s->gzip.avail_in = (uInt)(s->filled - s->at);
    s->gzip.next_out = buffer;
    s->gzip.avail_out = (uInt)capacity;
    int status = inflate(&s->gzip, Z_NO_FLUSH);
    s->at = s->filled - s->gzip.avail_in;
    *got = capacity - s->gzip.avail_out;
    if (status == Z_STREAM_END)
        s->inside = false;
    else if (status != Z_OK && status != Z_BUF_ERROR)
        return fail_at(s, "corrupt gzip data", s->gzip.msg, err);
    return true;
}

static bool read_zstd(size_t *got, ByteStream *s, unsigned char *buffer, size_t capacity,
                      Err *err) {
    ZSTD_inBuffer in = {s->stored, s->filled, s->at};
    ZSTD_outBuffer out = {buffer, capacity, 0};
    size_t status = ZSTD_decompressStream(s->zstd, &out, &in);
    s->at = in.pos;
    *got = out.pos;
    if (ZSTD_isError(status))
        return fail_at(s, "corrupt zstd data", ZSTD_getErrorName(status), err);
    s->inside = status != 0;
    return true;
}

bool byte_stream_read(size_t *got, ByteStream *s, unsigned char *buffer, size_t capacity,
                      Err *err) {
    *got = 0;
    if (capacity > STORED_CHUNK) capacity = STORED_CHUNK; /* fits zlib's counters */
    while (*got == 0) {
        if (s->at == s->filled && !s->ended) {
            if (!fill_stored(s, err)) return false;
            if (!s->checked && !check_start(s, err)) return false;
        }
        bool exhausted = s->at == s->filled;
        if (exhausted && s->kind == KIND_PLAIN) break;
        if (exhausted && !s->inside) break;
        size_t before = s->at;
        if (s->kind == KIND_PLAIN) {
            *got = s->filled - s->at < capacity ? s->filled - s->at : capacity;
            memcpy(buffer, s->stored + s->at, *got);
            s->at += *got;
        } else if (!(s->kind == KIND_GZIP ? read_gzip : read_zstd)(got, s, buffer, capacity, err)) {
            return false;
        }
        if (exhausted && *got == 0 && s->inside && s->at == before) {
            return fail_at(s, "the compressed data ends too early", "truncated file?", err);
        }
    }
    if (*got == 0 && s->hash) {
        s->hash_value = io_hash_end(s->hash);
        s->hash = NULL;
    }
    return true;
}
