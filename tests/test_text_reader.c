#define _GNU_SOURCE /* stpcpy */
#include "../src/data/text_reader.h"

#include <stdlib.h>
#include <sys/resource.h>

#include "../src/data/shards.h"
#include "harness.h"
#include "io.h"
#include "reading.h"
#include "rng.h"
#include "utf8.h"

static Reading read_text(const char *text) {
    return read_memory(text, strlen(text), "memory.txt");
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

/* What one piece leaves over must not decide where the next is cut: words first, then a word
 * without end. */
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

/* The end of the name says what is JSON lines; packed ones are decompressed first. */
static void test_json_names(void) {
    static const struct {
        const char *name;
        bool is_json;
    } rows[] = {{"a.jsonl", true}, {"a.json", true},      {"a.ndjson", true},  {"json", false},
                {"a.txt", false},  {"a.json.txt", false}, {"a.jsonl5", false}, {"a.JSON", false}};
    static const char text[] = "{\"text\": \"One.\"}\n";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Reading r = read_memory(text, sizeof text - 1, rows[i].name);
        CHECK_MSG(r.ok && (strstr(r.text, "{") == NULL) == rows[i].is_json, "%s", rows[i].name);
        free(r.text);
    }
    CHECK(name_is_json_lines("a.json.gz") && name_is_json_lines("a.ndjson.zst"));
    CHECK(!name_is_json_lines("a.json.xz") && !name_is_json_lines("a.gz"));
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

const Test tests_text_reader[] = {{"documents", test_documents, 0},
                                  {"long_lines", test_long_lines, 0},
                                  {"long_word_after_words", test_long_word_after_words, 0},
                                  {"buffer_borders", test_buffer_borders, 0},
                                  {"random_text", test_random_text, 0},
                                  {"json_names", test_json_names, 0},
                                  {"json_line_limit", test_json_line_limit, 0},
                                  {"flat_memory", test_flat_memory, 0},
                                  {0}};
