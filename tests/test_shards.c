#define _GNU_SOURCE /* seteuid */
#include "../src/data/shards.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../src/data/text_reader.h"
#include "../src/data/utf8.h"
#include "harness.h"
#include "io.h"
#include "rng.h"

enum { NOBODY = 65534 };
static const char HOSTILE[] = "tests/hostile/data/";

/* What a reader gave: each line followed by "\n", each document end as "--\n". */
typedef struct Reading {
    bool ok;
    Err err;
    char *text;
    size_t size, capacity;
    TextCounts counts;
    uint64_t hash;
} Reading;

static void add(Reading *r, const char *text, size_t size) {
    if (r->size + size + 1 > r->capacity) {
        r->capacity = 2 * (r->size + size + 1);
        r->text = realloc(r->text, r->capacity);
        REQUIRE(r->text != NULL);
    }
    memcpy(r->text + r->size, text, size);
    r->size += size;
    r->text[r->size] = 0;
}

static Reading read_all(TextReader *reader, Reading r) {
    TextEvent event = TEXT_LINE;
    add(&r, "", 0);
    while (r.ok && event != TEXT_END) {
        const char *text;
        size_t size;
        r.ok = text_reader_next(&event, &text, &size, reader, &r.err);
        if (!r.ok) break;
        CHECK((event == TEXT_LINE) == (size > 0));
        CHECK(size <= TEXT_PIECE_MAX);
        if (event == TEXT_LINE) {
            add(&r, text, size);
            add(&r, "\n", 1);
        } else if (event == TEXT_DOCUMENT_END) {
            add(&r, "--\n", 3);
        }
    }
    if (r.ok) {
        r.counts = *text_reader_counts(reader);
        r.hash = text_reader_file_hash(reader);
    }
    text_reader_close(reader);
    return r;
}

static Reading read_path(const char *path) {
    Reading r = {0};
    TextReader *reader = NULL;
    r.ok = text_reader_open(&reader, path, &r.err);
    return r.ok ? read_all(reader, r) : r;
}

static Reading read_memory(const void *data, size_t size, const char *name) {
    Reading r = {0};
    TextReader *reader = NULL;
    r.ok = text_reader_open_memory(&reader, data, size, name, &r.err);
    return r.ok ? read_all(reader, r) : r;
}

static Reading read_text(const char *text) {
    return read_memory(text, strlen(text), "memory.txt");
}

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
    CHECK_STR_CONTAINS(r.err.msg, "is a directory, wanted a text file");
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

static void test_documents(void) {
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"a\n\nb\n", "a\n--\nb\n--\n"},
        {"a\n\n\n\nb", "a\n--\nb\n--\n"},
        {"\n\n a \n \t \nb\n\n", "a \n--\nb\n--\n"},
        {"a\r\n\r\nb\r\n", "a\n--\nb\n--\n"},
        {"a\rb\r", "a b \n--\n"},
        {"a\r\r\nb", "a \nb\n--\n"},
        {"\r\n", ""},
        {"\xEF\xBB\xBF", ""},
        {"\xEF\xBB\xBF\n\nx", "x\n--\n"},
        {"\xEF\xBBx", "x\n--\n"},
        {"x\xEF\xBB\xBFy", "x\xEF\xBB\xBFy\n--\n"},
        {"a\n\x01\nb", "a\n--\nb\n--\n"},
        {"\xE2\x82", ""},
        {"a\xE2\x82", "a\n--\n"},
        {"a\xE2\x82\nb", "a\nb\n--\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Reading r = read_text(cases[i].in);
        REQUIRE(r.ok);
        CHECK_STR(r.text, cases[i].out);
        CHECK_INT(r.counts.text_bytes, strlen(cases[i].in));
        free(r.text);
    }
}

/* A line of `size` bytes made of copies of `unit`. */
static char *long_line(const char *unit, size_t size) {
    char *text = malloc(size + 1);
    REQUIRE(text != NULL);
    for (size_t i = 0; i < size; i++) text[i] = unit[i % strlen(unit)];
    text[size] = 0;
    return text;
}

static size_t count_lines(const char *text) {
    size_t count = 0;
    for (; *text; text++) count += *text == '\n';
    return count;
}

static void test_long_lines(void) {
    static const struct {
        const char *unit;
        size_t size, pieces;
    } cases[] = {
        {"word ", 16383, 1},
        {"word ", 16384, 1},
        {"x", 16384, 1},
        {"x", 16385, 2},
        {"word ", 20000, 2},
        {"x", 1 << 20, 64},
        {"\xE2\x82\xAC", 3 << 18, 49},
        {"ab \xF0\x9F\x98\x80", 1 << 20, 65},
        {" ", 1 << 20, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *line = long_line(cases[i].unit, cases[i].size);
        Reading r = read_text(line);
        REQUIRE(r.ok);
        size_t pieces =
            cases[i].pieces ? count_lines(r.text) - 1 : 0; /* without the document end */
        CHECK_INT(pieces, cases[i].pieces);
        CHECK_INT(r.counts.split_lines, cases[i].pieces > 1);
        /* the pieces together are the line, and each is whole characters */
        size_t at = 0;
        for (const char *p = r.text; pieces-- > 0;) {
            size_t size = strcspn(p, "\n");
            CHECK(size > 0 && size <= TEXT_PIECE_MAX && !memcmp(line + at, p, size));
            for (size_t c = 0; c < size;) {
                size_t n = utf8_length((const unsigned char *)p + c, size - c);
                if (n == 0 && at + size == cases[i].size)
                    break; /* the last character of the line itself may be cut */
                REQUIRE(n > 0);
                c += n;
            }
            at += size;
            bool before_space = line[at] == ' '; /* left out: a piece begins with a character */
            bool at_word = p[size - 1] == ' ' || before_space || !strchr(cases[i].unit, ' ');
            CHECK_MSG(pieces == 0 || at_word, "case %zu: cut within a word", i);
            at += before_space;
            p += size + 1;
        }
        if (cases[i].pieces) CHECK_INT(at + r.counts.dropped_bytes, cases[i].size);
        CHECK(r.counts.longest_line <= cases[i].size);
        free(line);
        free(r.text);
    }
}

/* What one piece leaves over must not decide where the next is cut: words first, then a word without end. */
static void test_long_word_after_words(void) {
    enum { WORDS = 16500, REST = 30000 };
    char *words = long_line("word ", WORDS), *rest = long_line("\xE2\x82\xAC", REST);
    char *line = malloc(WORDS + REST + 1);
    REQUIRE(line != NULL);
    strcat(strcpy(line, words), rest);
    Reading r = read_text(line);
    REQUIRE(r.ok);
    const char *second = strchr(r.text, '\n') + 1;
    /* of the words, now before the long one; the space at the cut is left out */
    size_t left_over = WORDS - (size_t)(second - 1 - r.text) - 1;
    CHECK_INT(strcspn(second, "\n"), left_over);
    const char *third = strchr(second, '\n') + 1;
    CHECK_INT(strcspn(third, "\n"), TEXT_PIECE_MAX / 3 * 3);
    CHECK(!memcmp(third, rest, TEXT_PIECE_MAX / 3 * 3));
    free(r.text);
    free(line);
    free(words);
    free(rest);
}

/* CR and LF, and the bytes of a character, on both sides of each border of the reader's buffer. */
static void test_buffer_borders(void) {
    enum { BORDER = 1 << 16, AROUND = 12, LINE = 8 };
    for (size_t shift = 0; shift < 2 * AROUND; shift++) {
        size_t filler = (BORDER - AROUND) / LINE * LINE + shift, at = 0;
        char *text = malloc(filler + 32);
        REQUIRE(text != NULL);
        for (; at < filler; at++) text[at] = at % LINE == LINE - 1 ? '\n' : 'a';
        strcpy(text + at, "b\r\nc\xF0\x9F\x98\x80\r\nd\xE2\x82\xAC\n");
        Reading r = read_text(text);
        REQUIRE(r.ok);
        const char *end = "b\nc\xF0\x9F\x98\x80\nd\xE2\x82\xAC\n--\n";
        CHECK_STR(r.text + r.size - strlen(end), end);
        CHECK_INT(r.counts.dropped_bytes, 0);
        free(r.text);
        free(text);
    }
}

/* The cleaning rules once more, on a whole file in memory and as slowly as one likes. */
static char *clean_slowly(const unsigned char *in, size_t size, size_t *dropped) {
    char *lines = malloc(4 * size + 16), *out = lines;
    size_t line = 0;
    bool open = false;
    *dropped = 0;
    for (size_t i = 0; i <= size;) {
        if (i == size || in[i] == '\n') {
            if (line > 0) {
                *out++ = '\n';
                open = true;
            } else if (open) {
                out = stpcpy(out, "--\n");
                open = false;
            }
            line = 0;
            if (i++ == size && open) out = stpcpy(out, "--\n");
            continue;
        }
        size_t n = utf8_length(in + i, size - i);
        unsigned c = in[i];
        if (n == 2 && c == 0xC2 && in[i + 1] < 0xA0) c = in[i + 1];
        bool cr = c == '\r' && i + 1 < size && in[i + 1] == '\n';
        bool space = c == ' ' || (c >= 9 && c <= 13) || (n == 2 && c == 0x85);
        bool control = n > 0 && n < 3 && (c < 32 || (c >= 0x7F && c < 0xA0)) && !space;
        if (n == 0 || control) {
            n = n ? n : 1;
            *dropped += n;
        } else if (!cr && space) {
            if (line++ > 0)
                *out++ = ' ';
            else
                line = 0;
        } else if (!cr) {
            memcpy(out, in + i, n);
            out += n;
            line += n;
        }
        i += n;
    }
    *out = 0;
    return lines;
}

static void test_random_text(void) {
    static const char *const units[] = {"a",        "bc",
                                        " ",        "\n",
                                        "\n\n",     "\r",
                                        "\r\n",     "\t",
                                        "\x01",     "\x7F",
                                        "\xC3",     "\xA9",
                                        "\xC3\xA9", "\xE2\x82\xAC",
                                        "\xE2\x82", "\xF0\x9F\x98\x80",
                                        "\xF0\x9F", "\xC2\x85",
                                        "\xC2\x99", "\xED\xA0\x80",
                                        "\xFF",     "z"};
    enum { UNITS = sizeof units / sizeof *units, SIZE = 200000 };
    uint64_t key = rng_key(test_seed(), RNG_TEST, 1, 0);
    for (size_t round = 0; round < 8; round++) {
        unsigned char *in = malloc(SIZE + 8);
        size_t size = 0,
               wanted = round < 4 ? 40 * round
                                  : SIZE; /* small ones for the ends, large ones for the refills */
        for (uint64_t i = 0; size < wanted; i++) {
            const char *unit = units[rng_below(key + round, i, UNITS)];
            memcpy(in + size, unit, strlen(unit));
            size += strlen(unit);
        }
        size_t dropped;
        char *expected = clean_slowly(in, size, &dropped);
        Reading r = read_memory(in, size, "random.txt");
        REQUIRE(r.ok);
        CHECK(!strcmp(r.text, expected));
        CHECK_INT(r.counts.dropped_bytes, dropped);
        CHECK_INT(r.counts.text_bytes, size);
        free(r.text);
        free(expected);
        free(in);
    }
}

static void test_json_line_limit(void) {
    size_t size = TEXT_JSON_LINE_MAX + 1;
    char *line = long_line("x", size);
    memcpy(line, "{\"text\": \"", 10);
    memcpy(line + size - 2, "\"}", 2);
    Reading r = read_memory(line, size, "long.jsonl");
    CHECK(!r.ok);
    CHECK_STR_CONTAINS(r.err.msg, "long.jsonl:1: a JSON line over 16777216 bytes");
    free(r.text);
    line[size - 3] = '"';
    line[size - 2] = '}';
    r = read_memory(line, size - 1, "long.jsonl");
    CHECK_MSG(r.ok, "%s", r.err.msg);
    CHECK_INT(r.counts.longest_line, size - 1 - 12);
    CHECK_INT(r.counts.split_lines, 1);
    free(r.text);
    free(line);
}

/* The memory in use does not grow after the first lines. */
static void test_flat_memory(void) {
    enum { SIZE = 16 << 20 };
    char *text =
        long_line("Words of a line that is quite ordinary.\nAnd words of another one.\n\n", SIZE);
    const char *path = test_temp_path("large.txt");
    REQUIRE(io_write_file(path, text, SIZE, NULL));
    struct rusage before, after;
    TextReader *reader;
    Err err = {0};
    TextEvent event = TEXT_LINE;
    size_t lines = 0;
    REQUIRE(text_reader_open(&reader, path, &err));
    for (size_t i = 0; event != TEXT_END; i++) {
        const char *piece;
        size_t size;
        REQUIRE(text_reader_next(&event, &piece, &size, reader, &err));
        if (i == 1000) getrusage(RUSAGE_SELF, &before);
        lines += event == TEXT_LINE;
    }
    getrusage(RUSAGE_SELF, &after);
    text_reader_close(reader);
    CHECK(lines > SIZE / 68 * 2);
    CHECK_MSG(after.ru_maxrss - before.ru_maxrss < 1024, "%ld KiB more",
              after.ru_maxrss - before.ru_maxrss);
    free(text);
}

const Test tests_shards[] = {{"good_files", test_good_files, 0},
                             {"bad_files", test_bad_files, 0},
                             {"unreadable", test_unreadable, 0},
                             {"documents", test_documents, 0},
                             {"long_lines", test_long_lines, 0},
                             {"long_word_after_words", test_long_word_after_words, 0},
                             {"buffer_borders", test_buffer_borders, 0},
                             {"random_text", test_random_text, 0},
                             {"json_line_limit", test_json_line_limit, 0},
                             {"flat_memory", test_flat_memory, 0},
                             {0}};
