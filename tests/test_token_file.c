#include "token_file.h"

#include <stdio.h>
#include <stdlib.h>

#include "harness.h"
#include "rng.h"
#include "tokenizer.h"

enum { HASH = 0x1234 };
static const char GOLDEN[] = "tests/golden/tokens-v1.tok";

/* Writes lines of 1 to 40 random ids, a document every few lines; the ids and lengths stored go to
 * the arrays. */
typedef struct Written {
    uint32_t *ids, *lengths;
    size_t count, lines, documents;
} Written;

static Written write_random(const char *path, size_t vocab, size_t lines, uint64_t key) {
    Written w = {0};
    Err err = {0};
    TokenWriter *writer;
    w.ids = malloc((lines * 41 + 1) * sizeof *w.ids);
    w.lengths = malloc((lines + 1) * sizeof *w.lengths);
    REQUIRE(w.ids && w.lengths);
    REQUIRE(token_writer_open(&writer, path, vocab, HASH, &err));
    CHECK(!token_writer_document_end(writer)); /* nothing to end yet */
    for (size_t l = 0; l < lines; l++) {
        size_t length = 1 + rng_below(key, 3 * l, 40);
        uint32_t *line = w.ids + w.count;
        for (size_t i = 0; i < length; i++)
            line[i] = TOKEN_SPECIALS + (uint32_t)rng_below(key + l, i, vocab - TOKEN_SPECIALS);
        token_writer_line(writer, line, length);
        token_writer_line(writer, line, 0);
        w.count += length;
        w.lengths[w.lines] = (uint32_t)length;
        if (l + 1 == lines || rng_below(key, 3 * l + 1, 4) == 0) {
            CHECK(token_writer_document_end(writer));
            CHECK(!token_writer_document_end(writer));
            w.ids[w.count++] = TOKEN_EOS;
            w.lengths[w.lines]++;
            w.documents++;
        }
        w.lines++;
    }
    if (!token_writer_commit(writer, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    return w;
}

static void written_free(Written *w) {
    free(w->ids);
    free(w->lengths);
}

static void test_round_trip(void) {
    static const struct {
        size_t vocab, lines, bytes;
    } cases[] = {{6, 0, 2},        {6, 1, 2},        {300, 7, 2},
                 {65536, 5000, 2}, {65537, 5000, 4}, {250000, 11, 4}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const char *path = test_temp_path("a.tok");
        Written w = write_random(path, cases[c].vocab, cases[c].lines,
                                 rng_key(test_seed(), RNG_TEST, 3, c));
        TokenFile f;
        Err err = {0};
        if (!CHECK_MSG(token_file_open(&f, path, &err), "%s", err.msg)) continue;
        CHECK_MSG(token_file_verify(&f, &err), "%s", err.msg);
        CHECK_INT(f.count, w.count);
        CHECK_INT(f.lines, w.lines);
        CHECK_INT(f.documents, w.documents);
        CHECK_INT(f.token_bytes, cases[c].bytes);
        CHECK_INT(f.vocab, cases[c].vocab);
        CHECK_INT(f.tokenizer_hash, HASH);
        uint32_t *ids = malloc((w.count + 1) * sizeof *ids);
        uint64_t *counts = calloc(cases[c].vocab, sizeof *counts);
        token_file_read(ids, &f, 0, f.count);
        CHECK(!memcmp(ids, w.ids, w.count * sizeof *ids));
        if (w.count > 5) {
            token_file_read(ids, &f, 3, 2);
            CHECK(ids[0] == w.ids[3] && ids[1] == w.ids[4]);
        }
        for (size_t l = 0; l < w.lines; l++) CHECK(token_file_line_length(&f, l) == w.lengths[l]);
        token_file_histogram(counts, &f);
        for (size_t i = 0; i < w.count; i++) counts[w.ids[i]]--;
        for (size_t i = 0; i < cases[c].vocab; i++) CHECK(counts[i] == 0);
        free(ids);
        free(counts);
        token_file_close(&f);
        written_free(&w);
    }
}

/* A valid small file's bytes. */
static Bytes small_file(void) {
    const char *path = test_temp_path("small.tok");
    Written w = write_random(path, 300, 9, 5);
    written_free(&w);
    Bytes b = {0};
    REQUIRE(io_read_file(&b, path, 1 << 20, NULL));
    return b;
}

/* Opens and, where that works, verifies. */
static bool accept(const Bytes *b, size_t size, Err *err) {
    TokenFile f;
    *err = (Err){0};
    return token_file_open_memory(&f, b->data, size, "x.tok", err) && token_file_verify(&f, err);
}

static void test_every_byte_counts(void) {
    Bytes b = small_file();
    Err err = {0};
    CHECK(accept(&b, b.size, &err));
    for (size_t i = 0; i < b.size; i++) {
        b.data[i] ^= 0x10;
        CHECK_MSG(!accept(&b, b.size, &err), "byte %zu changed and nobody noticed", i);
        CHECK_STR_CONTAINS(err.msg, "x.tok: ");
        b.data[i] ^= 0x10;
    }
    for (size_t size = 0; size < b.size; size++) CHECK(!accept(&b, size, &err));
    io_bytes_free(&b);
}

static void put(Bytes *b, size_t at, uint64_t value, size_t width) {
    for (size_t i = 0; i < width; i++) b->data[at + i] = (unsigned char)(value >> (8 * i));
}

/* Makes both checksums agree with the content. */
static void seal(Bytes *b) {
    io_put_u64(b->data + 56, io_hash(b->data + 128, b->size - 128));
    io_put_u64(b->data + 120, io_hash(b->data, 120));
}

/* Changes that carry right checksums, so that the rule itself must catch them. */
static void test_hostile_fields(void) {
    Bytes good = small_file();
    size_t tokens = io_get_u64(good.data + 16), lines = io_get_u64(good.data + 24);
    size_t line_at = good.size - 4 * lines;
    REQUIRE((tokens * 2) % 8 != 0); /* so that there is padding to test */
    const struct {
        const char *what;
        size_t at, width;
        uint64_t value;
        const char *message;
    } cases[] = {
        {"magic", 0, 1, 'X', "no token shard (its first bytes are not \"LFTOKENS\")"},
        {"next version", 8, 4, 2, "token shard of version 2, this program reads 1"},
        {"version 0", 8, 4, 0, "version 0"},
        {"header size", 12, 4, 64, "header of 64 bytes, wanted 128"},
        {"one token more", 16, 8, tokens + 4, "truncated?"},
        {"tokens 2^63", 16, 8, 1ull << 63, "its header says 9223372036854775808 tokens"},
        {"tokens 2^64-1", 16, 8, UINT64_MAX, "truncated?"},
        {"lines 2^62", 24, 8, 1ull << 62, "cannot be"},
        {"no lines", 24, 8, 0, "cannot be"},
        {"more documents than lines", 32, 8, lines + 1, "cannot be"},
        {"other documents", 32, 8, 1, "document ends, its header says 1"},
        {"vocabulary 0", 40, 4, 0, "vocabulary size 0, wanted 6 to 16777216"},
        {"vocabulary 5", 40, 4, 5, "vocabulary size 5"},
        {"vocabulary 2^24+1", 40, 4, (1 << 24) + 1, "vocabulary size 16777217"},
        {"vocabulary for 4 bytes", 40, 4, 70000, "2 bytes a token, wanted 4"},
        {"vocabulary too small for the ids", 40, 4, 6, "wanted 2, 3 or 5 to 5"},
        {"token width 4", 44, 4, 4, "4 bytes a token, wanted 2"},
        {"token width 0", 44, 4, 0, "0 bytes a token"},
        {"file size", 64, 8, good.size + 1, "truncated?"},
        {"reserved", 72, 1, 1, "must be zero"},
        {"reserved end", 119, 1, 1, "must be zero"},
        {"id out of range", 128, 2, 300, "token 0 is id 300, wanted 2, 3 or 5 to 299"},
        {"id <s>", 128, 2, TOKEN_BOS, "token 0 is id 0"},
        {"id <pad>", 128, 2, TOKEN_PAD, "token 0 is id 1"},
        {"id <mask>", 130, 2, TOKEN_MASK, "token 1 is id 4"},
        {"another </s>", 128, 2, TOKEN_EOS, "document ends, its header says"},
        {"padding", line_at - 1, 1, 1, "must be zero"},
        {"line of no tokens", line_at, 4, 0, "a line of no tokens"},
        {"line too long", line_at, 4, UINT32_MAX, "its header says"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Bytes b = {malloc(good.size), good.size};
        Err err = {0};
        memcpy(b.data, good.data, good.size);
        put(&b, cases[i].at, cases[i].value, cases[i].width);
        seal(&b);
        if (CHECK_MSG(!accept(&b, b.size, &err), "%s: accepted", cases[i].what)) {
            CHECK_MSG(strstr(err.msg, cases[i].message), "%s: '%s' lacks '%s'", cases[i].what,
                      err.msg, cases[i].message);
            CHECK_STR_CONTAINS(err.msg, "prepare the data again");
            CHECK_INT(err.code, ERR_FAILED);
        }
        free(b.data);
    }
    io_bytes_free(&good);
}

static void test_wrong_sizes(void) {
    Bytes b = small_file();
    Err err = {0};
    unsigned char *longer = malloc(b.size + 1);
    memcpy(longer, b.data, b.size);
    longer[b.size] = 0;
    Bytes more = {longer, b.size + 1};
    CHECK(!accept(&more, more.size, &err));
    CHECK_STR_CONTAINS(err.msg, "truncated?");
    CHECK(!accept(&b, b.size - 1, &err));
    CHECK_STR_CONTAINS(err.msg, "truncated?");
    CHECK(!accept(&b, 0, &err));
    CHECK_STR_CONTAINS(err.msg, "0 bytes, wanted a token shard");
    CHECK(!accept(&b, 127, &err));
    CHECK_STR_CONTAINS(err.msg, "127 bytes, wanted a token shard");
    free(longer);
    TokenFile f;
    CHECK(!token_file_open(&f, test_temp_path("none.tok"), &err));
    CHECK_STR_CONTAINS(err.msg, "none.tok: cannot open");
    CHECK(!token_file_open(&f, test_temp_dir(), &err));
    CHECK(f.map.data == NULL);
    io_bytes_free(&b);
}

static void test_write_faults(void) {
    TokenWriter *w;
    Err err = {0};
    CHECK(!token_writer_open(&w, test_temp_path("no/such/folder.tok"), 300, HASH, &err));
    CHECK_STR_CONTAINS(err.msg, "no/such/folder.tok");
    /* given up: nothing is left behind under either name */
    const char *path = test_temp_path("given_up.tok");
    REQUIRE(token_writer_open(&w, path, 300, HASH, &err));
    token_writer_line(w, (uint32_t[]){7, 8}, 2);
    token_writer_abort(w);
    CHECK(!io_is_file(path));
}

/* Written by version 1, and to be read for ever: "ids 5 6 7 </s>", "8 9", "10 <unk> </s>" with
 * vocabulary 300. */
static void test_golden(void) {
    static const uint32_t ids[] = {5, 6, 7, TOKEN_EOS, 8, 9, 10, TOKEN_UNK, TOKEN_EOS},
                          lengths[] = {4, 2, 3};
    enum { COUNT = sizeof ids / sizeof *ids };
    Err err = {0};
    const char *path = test_temp_path("golden.tok");
    TokenWriter *w;
    REQUIRE(token_writer_open(&w, path, 300, 0x0123456789ABCDEF, &err));
    token_writer_line(w, ids, 3);
    token_writer_document_end(w);
    token_writer_line(w, ids + 4, 2);
    token_writer_line(w, ids + 6, 2);
    token_writer_document_end(w);
    REQUIRE(token_writer_commit(w, &err));
    Bytes now = {0}, then = {0};
    REQUIRE(io_read_file(&now, path, 1 << 16, &err));
    REQUIRE(io_read_file(&then, GOLDEN, 1 << 16, &err));
    CHECK(now.size == then.size && !memcmp(now.data, then.data, now.size));
    TokenFile f;
    REQUIRE(token_file_open(&f, GOLDEN, &err));
    CHECK(token_file_verify(&f, &err));
    uint32_t read[COUNT];
    REQUIRE(f.count == COUNT && f.lines == 3);
    token_file_read(read, &f, 0, COUNT);
    CHECK(!memcmp(read, ids, sizeof ids));
    for (size_t l = 0; l < 3; l++) CHECK_INT(token_file_line_length(&f, l), lengths[l]);
    CHECK_INT(f.documents, 2);
    CHECK(f.tokenizer_hash == 0x0123456789ABCDEF);
    token_file_close(&f);
    io_bytes_free(&now);
    io_bytes_free(&then);
}

const Test tests_token_file[] = {{"round_trip", test_round_trip, 0},
                                 {"every_byte_counts", test_every_byte_counts, 0},
                                 {"hostile_fields", test_hostile_fields, 0},
                                 {"wrong_sizes", test_wrong_sizes, 0},
                                 {"write_faults", test_write_faults, 0},
                                 {"golden", test_golden, 0},
                                 {0}};
