#include "whole_sequences.h"

#include "batcher_fixture.h"
#include "harness.h"
#include "tokenizer.h"

static WholeSequences open_all(const Shards *s, size_t n) {
    WholeSequences out;
    Err err = {0};
    if (!whole_sequences_open(&out, &s->manifest.train, n, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    return out;
}

/* Starts by hand: with n = 9 a sequence takes 8 tokens. */
static void test_starts(void) {
    /* lines 5, 3, 8+1 (document end), 2, 6+1: they begin at 0, 5, 8, 17, 19; 26 tokens */
    static const size_t first[] = {5, 3, 8, 0, 2, 6}, second[] = {3, 20, 4};
    Shards s = {0};
    shards_add(&s, first, 6);
    shards_add(&s, second, 3); /* begin at 0, 3, 23; 28 tokens */
    WholeSequences w = open_all(&s, 9);
    /* 0-7, 8-15, 17-24, and from 19 on there are only 7; then 0-7, and 23 has 5 */
    static const size_t want[][2] = {{0, 0}, {0, 8}, {0, 17}, {1, 0}};
    CHECK_INT(w.count, 4);
    for (size_t i = 0; i < 4 && i < w.count; i++) {
        CHECK_INT(w.starts[i].file, want[i][0]);
        CHECK_INT(w.starts[i].token, want[i][1]);
    }
    uint32_t ids[9];
    whole_sequences_read(ids, &w, 1, 4);
    CHECK_INT(ids[0], TOKEN_BOS);
    for (size_t t = 0; t < 8; t++) CHECK_INT(ids[1 + t], s.ids[8 + t]);
    whole_sequences_read(ids, &w, 1, 2); /* the third of four */
    for (size_t t = 0; t < 8; t++) CHECK_INT(ids[1 + t], s.ids[17 + t]);
    whole_sequences_close(&w);
    shards_free(&s);
}

/* Every start is that of a line, none overlap, and no line is left out that could be a start. */
static void test_random(void) {
    enum { N = 31 };
    Shards s = {0};
    shards_add_random(&s, 400, 60, 1);
    shards_add_random(&s, 300, 12, 2);
    WholeSequences w = open_all(&s, N);
    CHECK(w.count > 100);
    size_t next = 0;
    for (size_t f = 0; f < 2; f++) {
        const TokenFile *file = &w.files[f];
        size_t position = 0, busy_to = 0;
        for (size_t l = 0; l < file->lines; l++) {
            bool wanted = position >= busy_to && position + N - 1 <= file->count;
            bool is_start =
                next < w.count && w.starts[next].file == f && w.starts[next].token == position;
            CHECK(is_start == wanted);
            if (is_start) next++, busy_to = position + N - 1;
            position += token_file_line_length(file, l);
        }
    }
    CHECK_INT(next, w.count);
    whole_sequences_close(&w);
    shards_free(&s);
}

static void test_exact_fit_and_too_short(void) {
    static const size_t lengths[] = {4, 3}, other[] = {2};
    Shards s = {0};
    WholeSequences w;
    Err err = {0};
    shards_add(&s, lengths, 2); /* 8 tokens with the document's end */
    shards_add(&s, other, 1);
    w = open_all(&s, 9);
    CHECK_INT(w.count, 1);
    whole_sequences_close(&w);
    CHECK(!whole_sequences_open(&w, &s.manifest.train, 10, &err));
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_STR_CONTAINS(err.msg, "n = 10 is `<s>` and 9 tokens");
    CHECK_STR_CONTAINS(err.msg, "the longest of 2 files has 8");
    CHECK(!whole_sequences_open(&w, &s.manifest.train, 1, &err));
    CHECK_INT(err.code, ERR_CONFIG);
    whole_sequences_close(&w);
    shards_free(&s);
}

const Test tests_whole_sequences[] = {
    {"starts", test_starts, 0},
    {"random", test_random, 0},
    {"exact_fit_and_too_short", test_exact_fit_and_too_short, 0},
    {0},
};
