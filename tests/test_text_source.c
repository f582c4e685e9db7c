#include "text_source.h"

#include <stdlib.h>

#include "data_fixture.h"
#include "harness.h"

/* A stream of these bytes. */
static FILE *stream_of(const char *bytes, size_t size) {
    FILE *stream = tmpfile();
    REQUIRE(stream && fwrite(bytes, 1, size, stream) == size);
    rewind(stream);
    return stream;
}

static void check_text(const TaskRow *row, size_t t, const char *text, size_t line) {
    CHECK_MSG(row->size[t] == strlen(text) && memcmp(row->text[t], text, row->size[t]) == 0,
              "'%.*s', wanted '%s'", (int)row->size[t], row->text[t], text);
    CHECK_INT(row->line, line);
    CHECK_INT(row->label, TASK_NO_LABEL);
}

/* Blocks of at most `most` lines give the texts one after the other. */
static void check_lines(const char *bytes, const char *const *texts, size_t count, size_t most) {
    FILE *stream = stream_of(bytes, strlen(bytes));
    TextSource *source;
    Err err = {0};
    REQUIRE(text_source_open_lines(&source, stream, "stdin", false, &err));
    size_t line = 0;
    for (;;) {
        TaskFile rows;
        if (!CHECK_MSG(text_source_next(&rows, source, most, &err), "%s", err.msg)) break;
        CHECK(rows.count <= most && !rows.pairs);
        CHECK_INT(rows.count, count - line < most ? count - line : most);
        for (size_t i = 0; i < rows.count && line < count; i++, line++) {
            check_text(&rows.rows[i], 0, texts[line], line + 1);
            CHECK(rows.rows[i].text[1] == NULL);
            CHECK_STR(rows.rows[i].place, "stdin");
        }
        if (rows.count == 0) break;
    }
    CHECK_INT(line, count);
    text_source_close(source);
    fclose(stream);
}

static void test_lines(void) {
    static const char *const texts[] = {"one", " two  words ", "a\ttab", "\xC3\xA9t\xC3\xA9",
                                        "five"};
    static const char unix_text[] = "one\n two  words \na\ttab\n\xC3\xA9t\xC3\xA9\nfive\n",
                      windows_text[] = "\xEF\xBB\xBFone\r\n two  words \r\na\ttab\r\n"
                                       "\xC3\xA9t\xC3\xA9\r\nfive";
    for (size_t most = 1; most <= 6; most++) {
        check_lines(unix_text, texts, 5, most);
        check_lines(windows_text, texts, 5, most);
    }
    check_lines("", texts, 0, 3);
}

/* A block of many lines of all sizes: its text moves while it grows. */
static void test_long_lines(void) {
    enum { LINES = 300, LONGEST = 5000 };
    char *bytes = malloc(LINES * (LONGEST + 2)), *at = bytes;
    REQUIRE(bytes);
    for (size_t i = 0; i < LINES; i++) {
        size_t size = 1 + i * i * 131 % LONGEST;
        memset(at, 'a' + (int)(i % 26), size);
        at[size] = '\n';
        at += size + 1;
    }
    FILE *stream = stream_of(bytes, (size_t)(at - bytes));
    TextSource *source;
    TaskFile rows;
    REQUIRE(text_source_open_lines(&source, stream, "stdin", false, NULL));
    REQUIRE(text_source_next(&rows, source, 2 * LINES, NULL));
    CHECK_INT(rows.count, LINES);
    const char *wanted = bytes;
    for (size_t i = 0; i < rows.count; i++) {
        size_t size = 1 + i * i * 131 % LONGEST;
        CHECK_INT(rows.rows[i].size[0], size);
        CHECK(memcmp(rows.rows[i].text[0], wanted, size) == 0);
        wanted += size + 1;
    }
    text_source_close(source);
    fclose(stream);
    free(bytes);
}

/* Much text makes a block of fewer rows, and a line without an end is refused before it is read. */
static void test_bounded_memory(void) {
    enum { LONGEST = 1 << 20, LINES = 40 };
    FILE *stream = tmpfile();
    char *line = malloc(LONGEST + 2);
    REQUIRE(stream && line);
    memset(line, 'a', LONGEST + 1);
    for (size_t i = 0; i < LINES; i++) {
        line[LONGEST] = '\n';
        REQUIRE(fwrite(line, 1, LONGEST + 1, stream) == LONGEST + 1);
    }
    line[LONGEST] = 'a';
    REQUIRE(fwrite(line, 1, LONGEST + 1, stream) == LONGEST + 1);
    rewind(stream);
    TextSource *source;
    TaskFile rows;
    Err err = {0};
    REQUIRE(text_source_open_lines(&source, stream, "stdin", false, NULL));
    for (size_t line_count = 0; line_count < LINES; line_count += rows.count) {
        size_t most = LINES - line_count;
        REQUIRE(text_source_next(&rows, source, most, &err));
        CHECK_INT(rows.count, most < 16 ? most : 16);
        CHECK_INT(rows.rows[0].size[0], LONGEST);
        CHECK_INT(rows.rows[0].line, line_count + 1);
    }
    CHECK(!text_source_next(&rows, source, 1, &err));
    CHECK_STR_CONTAINS(err.msg, "stdin:41: more than 1048576 bytes in a line");
    text_source_close(source);
    fclose(stream);
    free(line);
}

static void test_strings_and_pairs(void) {
    static const char *const strings[] = {"a b\tc", "d\te f", "g\th"};
    TextSource *source;
    TaskFile rows;
    REQUIRE(text_source_open_strings(&source, strings, 3, true, NULL));
    REQUIRE(text_source_next(&rows, source, 2, NULL));
    CHECK_INT(rows.count, 2);
    CHECK(rows.pairs);
    check_text(&rows.rows[0], 0, "a b", 1);
    check_text(&rows.rows[0], 1, "c", 1);
    check_text(&rows.rows[1], 0, "d", 2);
    check_text(&rows.rows[1], 1, "e f", 2);
    REQUIRE(text_source_next(&rows, source, 2, NULL));
    CHECK_INT(rows.count, 1);
    check_text(&rows.rows[0], 1, "h", 3);
    REQUIRE(text_source_next(&rows, source, 2, NULL));
    CHECK_INT(rows.count, 0);
    text_source_close(source);
    REQUIRE(text_source_open_strings(&source, strings, 1, false, NULL));
    REQUIRE(text_source_next(&rows, source, 9, NULL));
    CHECK(!rows.pairs);
    check_text(&rows.rows[0], 0, "a b\tc", 1);
    text_source_close(source);
}

/* Every line keeps its place; which ones may not be what was meant is noted. */
static void test_notes(void) {
    static const char *const texts[] = {"", "one", " \t", "a\tb", "", "c\td"};
    static const char bytes[] = "\none\n \t\r\na\tb\n\r\nc\td\n";
    check_lines(bytes, texts, 6, 4);
    FILE *stream = stream_of(bytes, sizeof bytes - 1);
    TextSource *source;
    TaskFile rows;
    REQUIRE(text_source_open_lines(&source, stream, "stdin", false, NULL));
    REQUIRE(text_source_next(&rows, source, 2, NULL));
    TextNotes notes = text_source_notes(source);
    CHECK(notes.lines == 2 && notes.empty == 1 && notes.first_empty == 1 && notes.tabbed == 0);
    REQUIRE(text_source_next(&rows, source, 9, NULL));
    notes = text_source_notes(source);
    CHECK(notes.lines == 6 && notes.empty == 3 && notes.first_empty == 1);
    CHECK(notes.tabbed == 2 && notes.first_tabbed == 4);
    text_source_close(source);
    fclose(stream);
}

static void test_notes_of_pairs(void) {
    static const char bytes[] = "a\tb\n\nc\t \n\td\n  \n";
    static const char *const texts[5][2] = {{"a", "b"}, {"", ""}, {"c", " "}, {"", "d"}, {"", ""}};
    FILE *stream = stream_of(bytes, sizeof bytes - 1);
    TextSource *source;
    TaskFile rows;
    Err err = {0};
    REQUIRE(text_source_open_lines(&source, stream, "stdin", true, NULL));
    REQUIRE(CHECK_MSG(text_source_next(&rows, source, 9, &err), "%s", err.msg));
    CHECK_INT(rows.count, 5);
    for (size_t i = 0; i < 5; i++) {
        for (size_t t = 0; t < 2; t++) check_text(&rows.rows[i], t, texts[i][t], i + 1);
    }
    TextNotes notes = text_source_notes(source);
    CHECK(notes.lines == 5 && notes.empty == 4 && notes.first_empty == 2 && notes.tabbed == 0);
    text_source_close(source);
    fclose(stream);
}

/* An empty argument is a variable that was not set. */
static void test_refused_strings(void) {
    static const char *const strings[] = {"a", " "}, *const pairs[] = {"a\tb", "a\t"};
    TextSource *source;
    TaskFile rows;
    Err err = {0};
    REQUIRE(text_source_open_strings(&source, strings, 2, false, NULL));
    CHECK(!text_source_next(&rows, source, 9, &err));
    CHECK_STR_CONTAINS(err.msg, "argument:2: the text is empty");
    text_source_close(source);
    REQUIRE(text_source_open_strings(&source, pairs, 2, true, NULL));
    CHECK(!text_source_next(&rows, source, 9, &err));
    CHECK_STR_CONTAINS(err.msg, "argument:2: the second text is empty");
    text_source_close(source);
}

/* The second block fails; the first one was given. */
static void check_refused(const char *bytes, size_t size, bool pairs, const char *message) {
    FILE *stream = stream_of(bytes, size);
    TextSource *source;
    TaskFile rows;
    Err err = {0};
    REQUIRE(text_source_open_lines(&source, stream, "stdin", pairs, &err));
    CHECK(text_source_next(&rows, source, 1, &err));
    CHECK_INT(rows.count, 1);
    CHECK(!text_source_next(&rows, source, 9, &err));
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_STR_CONTAINS(err.msg, message);
    CHECK_INT(rows.count, 0);
    text_source_close(source);
    fclose(stream);
}

#define BYTES(text) text, sizeof text - 1

static void test_refused(void) {
    check_refused(BYTES("one\nt\0o\n"), false, "stdin:2: byte 2 of the text is NUL");
    check_refused(BYTES("one\ntwo\nt\xC3\n"), false, "stdin:3: byte 2 of the text (0xC3)");
    check_refused(BYTES("one\n\xED\xA0\x80\n"), false, "stdin:2: byte 1 of the text (0xED)");
    check_refused(BYTES("one\n\xEF\xBB\xBF\xFF"), false, "stdin:2: byte 4 of the text (0xFF)");
}

static void test_refused_pairs(void) {
    check_refused(BYTES("a\tb\na b\n"), true, "stdin:2: 0 tabs");
    check_refused(BYTES("a\tb\na\tb\tc\n"), true, "stdin:2: 2 tabs");
    check_refused(BYTES("a\tb\nc\t\xFF\n"), true, "stdin:2: byte 1 of the second text (0xFF)");
}

/* A file of the task, in blocks. */
static void test_file(void) {
    static const char content[] = "label\ttext\n1\tfirst text\n\tsecond\n0\tthird\n";
    static char text[] = "text", label[] = "label";
    const FinetuneConfig task = {.task = TASK_CUSTOM, .text = text, .label = label};
    char *path = data_fixture_write("rows.tsv", BYTES(content));
    TextSource *source;
    TaskFile rows;
    Err err = {0};
    REQUIRE(text_source_open_file(&source, &task, path, &err));
    REQUIRE(text_source_next(&rows, source, 2, &err));
    CHECK_INT(rows.count, 2);
    CHECK(rows.rows[0].size[0] == 10 && !memcmp(rows.rows[0].text[0], "first text", 10));
    CHECK_INT(rows.rows[1].line, 3);
    CHECK_STR(rows.rows[1].place, path);
    REQUIRE(text_source_next(&rows, source, 2, &err));
    CHECK_INT(rows.count, 1);
    CHECK_INT(rows.rows[0].line, 4);
    REQUIRE(text_source_next(&rows, source, 2, &err));
    CHECK_INT(rows.count, 0);
    text_source_close(source);
    CHECK(!text_source_open_file(&source, &task, test_temp_path("none.tsv"), &err));
    CHECK(source == NULL);
    CHECK_STR_CONTAINS(err.msg, "none.tsv");
    free(path);
    text_source_close(NULL);
}

const Test tests_text_source[] = {
    {"lines", test_lines, TEST_FLOAT},
    {"long_lines", test_long_lines, TEST_FLOAT},
    {"bounded_memory", test_bounded_memory, TEST_FLOAT},
    {"strings_and_pairs", test_strings_and_pairs, TEST_FLOAT},
    {"notes", test_notes, TEST_FLOAT},
    {"notes_of_pairs", test_notes_of_pairs, TEST_FLOAT},
    {"refused", test_refused, TEST_FLOAT},
    {"refused_strings", test_refused_strings, TEST_FLOAT},
    {"refused_pairs", test_refused_pairs, TEST_FLOAT},
    {"file", test_file, TEST_FLOAT},
    {0},
};
