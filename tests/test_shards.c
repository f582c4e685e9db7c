#define _GNU_SOURCE /* seteuid */
#include "../src/data/shards.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "harness.h"
#include "io.h"
#include "reading.h"

enum { NOBODY = 65534 };
static const char HOSTILE[] = "tests/hostile/data/";

static const char *hostile(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s%s", HOSTILE, name);
    return path;
}

#define PLAIN "The first line.\nThe second line.\n--\nAnother document.\n--\n"

/* Files that hold text in one way or another, with what must come out. */
typedef struct GoodFile {
    const char *name, *text;
    unsigned dropped, empty_documents;
} GoodFile;

static const GoodFile good_files[] = {
    {"good.txt", PLAIN, 0, 0},
    {"good.txt.gz", PLAIN, 0, 0},
    {"good.txt.zst", PLAIN, 0, 0},
    {"good.jsonl", PLAIN, 0, 0},
    {"good.jsonl.gz", PLAIN, 0, 0},
    {"two_members.txt.gz", PLAIN, 0, 0},
    {"two_frames.txt.zst", PLAIN, 0, 0},
    {"zero_padded.txt.gz", PLAIN, 0, 0},
    {"crlf.txt", PLAIN, 0, 0},
    {"bom.txt", PLAIN, 0, 0},
    {"no_last_newline.txt", PLAIN, 0, 0},
    {"empty.txt", "", 0, 0},
    {"blank.txt", "", 0, 0},
    /* a line of nothing but NULs is blank */
    {"nul.txt", "The first line.\n--\nThe second line.\n--\n", 5, 0},
    /* e9; ff fe; c0 af; ed a0 80; f4 90 80 80 */
    {"invalid_utf8.txt", "caf     na\xC3\xAFve\n--\n", 12, 0},
    /* 01, 1b, 7f and the two bytes of U+009B go; U+0085, form feed and tab are spaces */
    {"controls.txt", "ab[1mcde f g h\n--\n", 5, 0},
    {"escapes.jsonl",
     "nul  here, half  pair, half , whole \xF0\x9F\x98\x80, caf\xC3\xA9, \\u0000\n--\n", 3, 0},
    {"empty_text.jsonl", "One.\n--\n", 0, 2},
};

static void test_good_files(void) {
    for (size_t i = 0; i < sizeof good_files / sizeof *good_files; i++) {
        const GoodFile *g = &good_files[i];
        Reading r = read_path(hostile(g->name));
        if (!CHECK_MSG(r.ok, "%s: %s", g->name, r.err.msg)) continue;
        CHECK_MSG(!strcmp(r.text, g->text), "%s: found '%s', wanted '%s'", g->name, r.text,
                  g->text);
        CHECK_MSG(r.counts.dropped_bytes == g->dropped, "%s: %d bytes dropped, wanted %u", g->name,
                  (int)r.counts.dropped_bytes, g->dropped);
        CHECK_MSG(r.counts.empty_documents == g->empty_documents, "%s: empty documents", g->name);
        uint64_t hash = 0;
        CHECK(io_hash_file(&hash, hostile(g->name), NULL));
        CHECK_MSG(r.hash == hash, "%s: hash taken while reading", g->name);
        free(r.text);
    }
}

/* Files that must be refused, and a part of the message. */
typedef struct BadFile {
    const char *name, *message;
} BadFile;

static const BadFile bad_files[] = {
    {"truncated.txt.gz",
     "the compressed data ends too early at byte 3528 of 3528: truncated file?"},
    {"no_trailer.txt.gz", "the compressed data ends too early at byte 7049"},
    {"header_only.txt.gz", "ends too early at byte 10 of 10"},
    {"one_byte.txt.gz", "no gzip data (its first byte is 0x1f)"},
    {"bad_checksum.txt.gz", "incorrect data check"},
    {"bad_length.txt.gz", "incorrect length check"},
    {"corrupt.txt.gz", "corrupt gzip data at byte"},
    {"trailing_garbage.txt.gz", "bytes that are no gzip data follow"},
    {"empty.txt.gz", "0 bytes, wanted gzip data"},
    {"plain.txt.gz", "no gzip data (its first byte is 0x54)"},
    {"zstd_named.txt.gz", "no gzip data"},
    {"gzip_named.txt", "holds gzip data, wanted UTF-8 text: name the file .gz"},
    {"gzip_named.jsonl", "holds gzip data"},
    {"truncated.txt.zst", "ends too early at byte"},
    {"no_checksum_end.txt.zst", "ends too early at byte"},
    {"bad_checksum.txt.zst", "doesn't match checksum"},
    {"corrupt.txt.zst", "corrupt zstd data at byte"},
    {"plain.txt.zst", "no zstd data"},
    {"empty.txt.zst", "0 bytes, wanted zstd data"},
    {"trailing_garbage.txt.zst", "corrupt zstd data at byte"},
    {"huge_window.txt.zst", "corrupt zstd data at byte"},
    {"utf16.txt", "holds UTF-16 text, wanted UTF-8"},
    {"xz_named.txt", "holds xz data"},
    {"bzip2_named.txt", "holds bzip2 data"},
    {"zip_named.txt", "holds a zip archive"},
    {"parquet_named.jsonl", "holds a Parquet file"},
    {"no_text.jsonl", "no_text.jsonl:2:1: no member \"text\""},
    {"text_number.jsonl", ":1:1: the member \"text\" is not a string"},
    {"text_null.jsonl", "the member \"text\" is not a string"},
    {"text_twice.jsonl", "the member \"text\" is there twice"},
    {"array.jsonl", ":1:1: not a JSON object"},
    {"string.jsonl", ":1:1: not a JSON object"},
    {"cut.jsonl", "cut.jsonl:2:"},
    {"two_values.jsonl", ":1:18: more follows the JSON value"},
    {"plain_text.jsonl", "plain_text.jsonl:1:1: not valid JSON"},
    {"trailing_comma.jsonl", "not valid JSON here"},
    {"bad_escape.jsonl", "bad_escape.jsonl:1:"},
    {"deep.jsonl", "deep.jsonl:1:"},
    {"nul_between.jsonl", "nul_between.jsonl:1:9: not valid JSON here"},
    {"missing.txt", "cannot open: No such file"},
};

static double now_s(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void test_bad_files(void) {
    for (size_t i = 0; i < sizeof bad_files / sizeof *bad_files; i++) {
        const BadFile *b = &bad_files[i];
        double start = now_s();
        Reading r = read_path(hostile(b->name));
        CHECK_MSG(now_s() - start < 1, "%s: took %.1f s", b->name, now_s() - start);
        if (CHECK_MSG(!r.ok, "%s: read without a complaint", b->name)) {
            CHECK_STR_CONTAINS(r.err.msg, hostile(b->name));
            CHECK_STR_CONTAINS(r.err.msg, b->message);
            CHECK_INT(r.err.code, ERR_FAILED);
        }
        free(r.text);
    }
}

static void test_unreadable(void) {
    Reading r = read_path(test_temp_dir());
    CHECK(!r.ok);
    CHECK_STR_CONTAINS(r.err.msg, "is a directory, wanted a file");
    const char *pipe_path = test_temp_path("pipe.txt");
    REQUIRE(mkfifo(pipe_path, 0600) == 0);
    r = read_path(pipe_path);
    CHECK(!r.ok);
    CHECK_STR_CONTAINS(r.err.msg, "is a pipe or device");
    const char *secret = test_temp_path("secret.txt");
    REQUIRE(io_write_file(secret, "text\n", 5, NULL));
    REQUIRE(chmod(secret, 0) == 0 && chmod(test_temp_dir(), 0755) == 0);
    if (geteuid() == 0) REQUIRE(seteuid(NOBODY) == 0);
    r = read_path(secret);
    CHECK(!r.ok);
    CHECK_STR_CONTAINS(r.err.msg, "cannot open: Permission denied");
    if (getuid() == 0) REQUIRE(seteuid(0) == 0);
}

const Test tests_shards[] = {{"good_files", test_good_files, 0},
                             {"bad_files", test_bad_files, 0},
                             {"unreadable", test_unreadable, 0},
                             {0}};
