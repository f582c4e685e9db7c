#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "checkpoint_fixture.h"
#include "harness.h"
#include "io.h"
#include "log.h"

static void check_block(const real *x, const ParamTable *table, size_t block) {
    for (size_t t = 0; t < table->count; t++) {
        const Tensor *tensor = &table->items[t];
        for (size_t i = 0; i < tensor->count; i++)
            CHECK(x[tensor->offset + i] == checkpoint_fixture_value(block, tensor->offset + i));
    }
}

static real *zero_block(const ParamTable *table) {
    real *x = calloc(table->block_reals, sizeof *x);
    REQUIRE(x);
    return x;
}

static void save(const CheckpointFixture *fixture, const char *name, const char *kind) {
    Err err = {0};
    CheckpointContent content = checkpoint_fixture_content(fixture, kind);
    if (!CHECK_MSG(checkpoint_save(test_temp_path(name), &content, &err), "%s", err.msg))
        test_end();
}

/* What is saved comes back bit by bit, doubles of the state included. */
static void test_round_trip(void) {
    Err err = {0};
    CheckpointFixture f;
    Checkpoint c;
    checkpoint_fixture_create(&f);
    save(&f, "a.ckpt", "pretrain");
    if (!CHECK_MSG(checkpoint_open(&c, test_temp_path("a.ckpt"), &err), "%s", err.msg)) test_end();
    CHECK_STR(c.kind, "pretrain");
    CHECK_INT(c.state.step, 42);
    CHECK_INT(c.state.sample, 84);
    CHECK_INT(c.state.tokens, 400);
    CHECK_CLOSE(c.state.elapsed_s, 0, 0); /* not in files unless the budget is in hours */
    CHECK(c.state.best_valid_loss == 0.1 + 0.2);
    CHECK(c.state.window_loss == 1.0 / 3);
    CHECK_INT(c.state.window_masked, 9);
    CHECK(c.state.data_hash == 0xfedcba9876543210u);
    CHECK_INT(c.state.dataset_sequences, 50);
    CHECK_INT(c.config.model.vocab, 6);
    CHECK_INT(c.config.train.seed, 7);
    CHECK_INT(c.moments, 2);
    CHECK(c.tokenizer.size == 32 &&
          !memcmp(c.tokenizer.data, "stands for a sentencepiece model", 32));
    CHECK(c.tokenizer_hash == io_hash("stands for a sentencepiece model", 32));
    real *w = zero_block(&c.table), *m = zero_block(&c.table), *v = zero_block(&c.table);
    CHECK(checkpoint_verify(&c, &err) && checkpoint_read(&c, &c.table, w, m, v, &err));
    check_block(w, &c.table, 0);
    check_block(m, &c.table, 1);
    check_block(v, &c.table, 2);
    for (size_t i = 0; i < c.entry_count; i++)
        CHECK((c.data_start + c.entries[i].offset) % 64 == 0);
    free(w), free(m), free(v);
    checkpoint_close(&c);
    checkpoint_fixture_destroy(&f);
}

static void test_hours_keep_their_time(void) {
    Err err = {0};
    CheckpointFixture f;
    Checkpoint c;
    checkpoint_fixture_create(&f);
    f.config.train.budget_unit = BUDGET_HOURS;
    f.state.best_valid_loss = INFINITY;
    save(&f, "a.ckpt", "pretrain");
    REQUIRE(checkpoint_open(&c, test_temp_path("a.ckpt"), &err));
    CHECK_CLOSE(c.state.elapsed_s, 12.5, 0);
    CHECK(isinf(c.state.best_valid_loss)); /* null in the file */
    checkpoint_close(&c);
    checkpoint_fixture_destroy(&f);
}

static void test_weights_only(void) {
    Err err = {0};
    CheckpointFixture f;
    Checkpoint c;
    checkpoint_fixture_create(&f);
    save(&f, "a.ckpt", "weights");
    REQUIRE(checkpoint_open(&c, test_temp_path("a.ckpt"), &err));
    CHECK_INT(c.moments, 0);
    real *w = zero_block(&c.table), *m = zero_block(&c.table);
    CHECK(checkpoint_read(&c, &c.table, w, NULL, NULL, &err));
    check_block(w, &c.table, 0);
    CHECK(!checkpoint_read(&c, &c.table, w, m, NULL, &err));
    CHECK_STR_CONTAINS(err.msg, "training cannot go on from it");
    ParamTable other = c.table; /* blocks laid out otherwise are refused */
    other.block_reals -= 16;
    CHECK(!checkpoint_read(&c, &other, w, NULL, NULL, &err));
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_STR_CONTAINS(err.msg, "another model's");
    free(w), free(m);
    checkpoint_close(&c);
    checkpoint_fixture_destroy(&f);
}

/* A file written by the first version of the format loads for ever. */
static void test_golden_v1(void) {
    Err err = {0};
    Checkpoint c;
    if (!CHECK_MSG(checkpoint_open(&c, "tests/golden/checkpoint-v1.ckpt", &err), "%s", err.msg))
        test_end();
    CHECK_INT(c.state.step, 42);
    CHECK(c.state.window_loss == 1.0 / 3);
    CHECK(c.state.data_hash == 0xfedcba9876543210u);
    CHECK_INT(c.config.model.ffn, 6);
    CHECK(c.config.model.norm == NORM_PRE);
    real *w = zero_block(&c.table), *m = zero_block(&c.table), *v = zero_block(&c.table);
    CHECK_MSG(checkpoint_read(&c, &c.table, w, m, v, &err), "%s", err.msg);
    check_block(w, &c.table, 0);
    check_block(m, &c.table, 1);
    check_block(v, &c.table, 2);
    free(w), free(m), free(v);
    checkpoint_close(&c);
}

/* Two runs in different folders write the same file. */
static void test_bytes_do_not_name_the_run(void) {
    Err err = {0};
    CheckpointFixture f;
    Bytes a, b;
    checkpoint_fixture_create(&f);
    save(&f, "a.ckpt", "pretrain");
    char *run = f.config.run_dir;
    f.config.run_dir = "/somewhere/else";
    f.state.elapsed_s = 99;
    save(&f, "b.ckpt", "pretrain");
    f.config.run_dir = run;
    REQUIRE(io_read_file(&a, test_temp_path("a.ckpt"), 1 << 20, &err) &&
            io_read_file(&b, test_temp_path("b.ckpt"), 1 << 20, &err));
    CHECK(a.size == b.size && !memcmp(a.data, b.data, a.size));
    io_bytes_free(&a);
    io_bytes_free(&b);
    checkpoint_fixture_destroy(&f);
}

/* In the tensors a full open for every 16th byte is enough: what opening skips, verifying must
 * find. */
static void test_flipped_byte_is_noticed(void) {
    Err err;
    checkpoint_check_flips("pretrain", 16);
    Bytes file = checkpoint_fixture_file("pretrain");
    size_t start = checkpoint_data_start(&file);
    Checkpoint c;
    REQUIRE(checkpoint_open_bytes(&c, file.data, file.size, "test.ckpt", &err));
    real *w = zero_block(&c.table);
    for (size_t i = start; i < file.size; i++) {
        file.data[i] ^= 0x80;
        CHECK_MSG(!checkpoint_verify(&c, &err), "byte %zu of %zu: flip not noticed by verify", i,
                  file.size);
        CHECK_MSG(!checkpoint_read(&c, &c.table, w, NULL, NULL, &err),
                  "byte %zu of %zu: flip not noticed by read", i, file.size);
        file.data[i] ^= 0x80;
    }
    free(w);
    checkpoint_close(&c);
    io_bytes_free(&file);
}

/* And one byte too long. */
static void test_truncated_at_every_length(void) {
    Err err;
    checkpoint_check_cuts("weights");
    Bytes file = checkpoint_fixture_file("weights");
    unsigned char *longer = calloc(1, file.size + 1);
    REQUIRE(longer);
    memcpy(longer, file.data, file.size);
    CHECK(!checkpoint_accepts(longer, file.size + 1, &err));
    CHECK_STR_CONTAINS(err.msg, "something follows the last tensor");
    free(longer);
    io_bytes_free(&file);
}

typedef struct Patch {
    const char *name;
    size_t offset;
    const char *bytes;
    size_t size;
    const char *message;
} Patch;

static void test_bad_fixed_fields(void) {
    static const Patch patches[] = {
        {"magic", 0, "GARBAGE!", 8, "begins with 47 41 52 42"},
        {"magic-text-mode", 6, "\n\n", 2, "not a checkpoint"},
        {"swapped-8", 0, "\n\rTPKCFL", 8, "swapped in words of 8"},
        {"swapped-4", 0, "KCFL\n\rTP", 8, "swapped in words of 4"},
        {"swapped-2", 0, "FLKCTP\n\r", 8, "swapped in words of 2"},
        {"zip", 0, "PK\3\4abcd", 8, "zip archive"},
        {"numpy", 0, "\x93NUMPY\1\0", 8, "NumPy"},
        {"gguf", 0, "GGUF\3\0\0\0", 8, "GGUF"},
        {"version-2", 8, "\2\0\0\0", 4,
         "format version 2, this program reads version 1: use the newer"},
        {"version-0", 8, "\0\0\0\0", 4, "format version 0"},
        {"reserved", 12, "\1\0\0\0", 4, "bytes 12..15"},
        {"header-length-0", 24, "\0\0\0\0\0\0\0\0", 8, "header length 0"},
        {"header-length-2e63", 24, "\0\0\0\0\0\0\0\x80", 8, "header length 9223372036854775808"},
        {"header-length-max", 24, "\xff\xff\xff\xff\xff\xff\xff\xff", 8,
         "header length 18446744073709551615"},
        {"header-length-beyond", 24, "\0\0\x10\0\0\0\0\0", 8, "cut off"},
        {"header-checksum", 16, "abcdefgh", 8, "header checksum"},
    };
    Bytes file = checkpoint_fixture_file("weights");
    for (size_t i = 0; i < sizeof patches / sizeof patches[0]; i++) {
        unsigned char saved[8];
        memcpy(saved, file.data + patches[i].offset, patches[i].size);
        memcpy(file.data + patches[i].offset, patches[i].bytes, patches[i].size);
        checkpoint_check_refused(patches[i].name, file.data, file.size, patches[i].message);
        memcpy(file.data + patches[i].offset, saved, patches[i].size);
    }
    checkpoint_check_refused("empty", NULL, 0, "0 bytes");
    checkpoint_check_refused("one-byte", file.data, 1, "1 bytes");
    io_bytes_free(&file);
}

/* Headers that lie, with checksums that hold. */
static void test_bad_headers(void) {
    static const CheckpointForgery forgeries[] = {
        {"not-json", "{\"kind\"", "<\"kind\"", "not JSON"},
        {"json-then-more", "]}", "]}{}", "not JSON at byte"},
        {"nested", "\"kind\":\"weights\"",
         "\"kind\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
         "\"kind\" is not a text"},
        {"unknown-kind", "\"kind\":\"weights\"", "\"kind\":\"optimizer\"", "kind \"optimizer\""},
        {"kind-claims-moments", "\"kind\":\"weights\"", "\"kind\":\"pretrain\"",
         "tensors, the model of its config has"},
        {"missing-member", "\"vocab\":6,", "", "no member \"vocab\""},
        {"duplicate-member", "\"vocab\":6,", "\"vocab\":6,\"vocab\":6,", "unknown or there twice"},
        {"unknown-member", "\"vocab\":6,", "\"vocab\":6,\"more\":1,", "unknown or there twice"},
        {"vocab-0", "\"vocab\":6,", "\"vocab\":0,", "\"vocab\" is 0"},
        {"vocab-fraction", "\"vocab\":6,", "\"vocab\":6.5,", "\"vocab\" is not a count"},
        {"vocab-2e62", "\"vocab\":6,", "\"vocab\":4611686018427387904,",
         "\"vocab\" is not a count"},
        {"vocab-2e52", "\"vocab\":6,", "\"vocab\":4503599627370496,", "shape"},
        {"vocab-text", "\"vocab\":6,", "\"vocab\":\"6\",", "\"vocab\" is not a count"},
        {"config-broken", "model:", "motel:", "config in the header"},
        {"config-other-width", "width: 4", "width: 8",
         "has shape 6 x 4, the model of its config wants 6 x 8"},
        {"config-more-layers", "layers: 1", "layers: 128", "tensors, the model of its config has"},
        {"config-huge", "ffn: 6", "ffn: 1048576", "has shape"},
        {"state-not-object", "\"state\":{", "\"state\":[],\"was\":{", "unknown or there twice"},
        {"step-negative", "\"step\":42", "\"step\":-42", "\"step\" is not a count"},
        {"step-2e63", "\"step\":42", "\"step\":9223372036854775808", "\"step\" is not a count"},
        {"loss-nan", "\"window_loss\":", "\"window_loss\":null,\"x\":", "unknown or there twice"},
        {"loss-1e999", "\"elapsed_s\":0", "\"elapsed_s\":1e999", "not a finite number"},
        {"hash-short", "\"data_hash\":\"fe", "\"data_hash\":\"", "16 hexadecimal digits"},
        {"other-tokenizer", "\"tokenizer_hash\":\"",
         "\"tokenizer_hash\":\"0000000000000000\",\"was\":\"", "unknown or there twice"},
        {"tensors-not-list", "\"tensors\":[", "\"tensors\":{},\"was\":[", "unknown or there twice"},
        {"tensor-renamed", "\"name\":\"token\"", "\"name\":\"taken\"",
         "\"taken\" where the model of its config has \"token\""},
        {"tensor-type", "\"dtype\":\"F", "\"dtype\":\"BF", "has type BF"},
        {"tensor-transposed", "\"shape\":[6,4]", "\"shape\":[4,6]", "has shape 4 x 6"},
        {"tensor-shape-3", "\"shape\":[6,4]", "\"shape\":[6,4,1]",
         "shape is not a list of one or two"},
        {"tensor-shape-product", "\"shape\":[6,4]", "\"shape\":[4294967296,4294967296]",
         "has shape 4294967296 x 4294967296"},
        {"tensor-overlaps", "\"offset\":0,", "\"offset\":64,", "at offset 64, wanted"},
        {"tensor-offset-2e63", "\"offset\":0,", "\"offset\":9223372036854775808,",
         "\"offset\" is not a count"},
        {"tensor-bytes", "\"bytes\":", "\"bytes\":1", "at offset 0, wanted"},
        {"tensor-checksum", "\"xxh3\":\"", "\"xxh3\":\"0000000000000000\",\"was\":\"",
         "unknown or there twice"},
        {"tokenizer-size", "\"bytes\":32,\"xxh3\":\"7ac03641074b57ba\"",
         "\"bytes\":9007199254740991,\"xxh3\":\"7ac03641074b57ba\"", "tokenizer has shape"},
        {"tokenizer-size-shape", "\"shape\":[32],", "\"shape\":[33],", "tokenizer has shape 33"},
    };
    checkpoint_check_forgeries("weights", forgeries, sizeof forgeries / sizeof forgeries[0]);
}

/* A save that cannot succeed says so and leaves the earlier file and no other. */
static void test_failed_save_leaves_nothing(void) {
    Err err = {0};
    CheckpointFixture f;
    checkpoint_fixture_create(&f);
    CheckpointContent content = checkpoint_fixture_content(&f, "pretrain");
    CHECK(!checkpoint_save(test_temp_path("no/such/folder.ckpt"), &content, &err));
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_STR_CONTAINS(err.msg, "folder.ckpt");
    checkpoint_fixture_destroy(&f);
}

static void save_step(CheckpointFixture *f, uint64_t step, const char *name) {
    f->state.step = step;
    save(f, name, "pretrain");
}

static void damage(const char *name, long at) {
    FILE *file = fopen(test_temp_path(name), "r+b");
    REQUIRE(file && fseek(file, at, at < 0 ? SEEK_END : SEEK_SET) == 0);
    int c = fgetc(file);
    REQUIRE(fseek(file, -1, SEEK_CUR) == 0 && fputc(c ^ 4, file) != EOF && fclose(file) == 0);
}

static void check_newest(const char *name) {
    Err err = {0};
    char *path = NULL;
    bool found = checkpoint_find_newest(&path, test_temp_dir(), &err);
    if (name && CHECK_MSG(found, "%s", err.msg)) CHECK_STR(strrchr(path, '/') + 1, name);
    if (!name) {
        CHECK(!found);
        CHECK_STR_CONTAINS(err.msg, "is valid");
    }
    free(path);
}

static void test_find_newest_skips_the_damaged(void) {
    Err err = {0};
    char *path = NULL;
    CheckpointFixture f;
    log_quiet(true);
    checkpoint_fixture_create(&f);
    CHECK(!checkpoint_any(test_temp_dir()));
    CHECK(!checkpoint_find_newest(&path, test_temp_dir(), &err) && path == NULL);
    CHECK_STR_CONTAINS(err.msg, "no checkpoint");
    save_step(&f, 100, "step-00000100.ckpt");
    save_step(&f, 200, "step-00000200.ckpt");
    save_step(&f, 900, "best.ckpt"); /* not a candidate, nor are these names: */
    save_step(&f, 900, "step-900.ckpt");
    save_step(&f, 900, "step-00000900.ckpt.tmp.1");
    check_newest("step-00000200.ckpt");
    save_step(&f, 200, "last.ckpt");
    check_newest("last.ckpt");
    save_step(&f, 150, "last.ckpt");
    check_newest("step-00000200.ckpt");
    save_step(&f, 250, "last.ckpt");
    check_newest("last.ckpt");
    damage("last.ckpt", -100);
    check_newest("step-00000200.ckpt");
    damage("step-00000200.ckpt", 500);
    check_newest("step-00000100.ckpt");
    REQUIRE(truncate(test_temp_path("step-00000100.ckpt"), 0) == 0);
    CHECK(checkpoint_any(test_temp_dir()));
    check_newest(NULL);
    checkpoint_fixture_destroy(&f);
}

static void test_prune_keeps_the_newest(void) {
    CheckpointFixture f;
    checkpoint_fixture_create(&f);
    static const uint64_t steps[] = {5, 100, 20, 100000000, 3};
    for (size_t i = 0; i < 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "step-%08llu.ckpt", (unsigned long long)steps[i]);
        save_step(&f, steps[i], name);
    }
    save_step(&f, 1, "last.ckpt");
    checkpoint_prune(test_temp_dir(), 0);
    CHECK(io_is_file(test_temp_path("step-00000003.ckpt")));
    checkpoint_prune(test_temp_dir(), 2);
    CHECK(io_is_file(test_temp_path("step-100000000.ckpt")) &&
          io_is_file(test_temp_path("step-00000100.ckpt")));
    CHECK(!io_is_file(test_temp_path("step-00000020.ckpt")) &&
          !io_is_file(test_temp_path("step-00000003.ckpt")));
    CHECK(io_is_file(test_temp_path("last.ckpt")));
    checkpoint_fixture_destroy(&f);
}

const Test tests_checkpoint[] = {
    {"round_trip", test_round_trip, 0},
    {"hours_keep_their_time", test_hours_keep_their_time, 0},
    {"weights_only", test_weights_only, 0},
    {"golden_v1", test_golden_v1, TEST_FLOAT},
    {"bytes_do_not_name_the_run", test_bytes_do_not_name_the_run, 0},
    {"flipped_byte_is_noticed", test_flipped_byte_is_noticed, 0},
    {"truncated_at_every_length", test_truncated_at_every_length, 0},
    {"bad_fixed_fields", test_bad_fixed_fields, 0},
    {"bad_headers", test_bad_headers, 0},
    {"failed_save_leaves_nothing", test_failed_save_leaves_nothing, 0},
    {"find_newest_skips_the_damaged", test_find_newest_skips_the_damaged, 0},
    {"prune_keeps_the_newest", test_prune_keeps_the_newest, 0},
    {0},
};
