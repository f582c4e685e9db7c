#define _GNU_SOURCE
#include "prepare.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "data_fixture.h"
#include "harness.h"
#include "io.h"
#include "prepare_fixture.h"
#include "stop_signal.h"

static void test_held_out_text_is_not_trained_on(void) {
    Config config;
    prepare_fixture_create(&config);
    data_fixture_add(&config.data.valid, config.data.train.items[1]);
    prepare_fixture_refuses(&config, ERR_FAILED, "text1.txt (data.valid) has the same content as");
    /* under another spelling of the path, as a link, as a copy */
    free(config.data.valid.items[1]);
    config.data.valid.items[1] = strdup(test_temp_path("./text1.txt"));
    prepare_fixture_refuses(&config, ERR_FAILED, "has the same content as");
    REQUIRE(symlink(config.data.train.items[1], test_temp_path("link.txt")) == 0);
    free(config.data.valid.items[1]);
    config.data.valid.items[1] = strdup(test_temp_path("link.txt"));
    prepare_fixture_refuses(&config, ERR_FAILED, "has the same content as");
    Bytes text = {0};
    REQUIRE(io_read_file(&text, config.data.train.items[1], 1 << 20, NULL));
    free(config.data.valid.items[1]);
    config.data.valid.items[1] = data_fixture_write("copy.txt", text.data, text.size);
    prepare_fixture_refuses(&config, ERR_FAILED, "copy.txt (data.valid) has the same content as");
    CHECK(prepare_fixture_is_stale(&config, "the last preparation ended early"));
    io_bytes_free(&text);
    data_fixture_free(&config);
}

/* Texts that are odd but good, with the counts they must give. */
static void test_odd_texts(void) {
    static const struct {
        const char *text;
        size_t size;
        uint64_t documents, lines, dropped, split, empty;
    } cases[] = {
        {"One document only.", 18, 1, 1, 0, 0, 0},
        {"a", 1, 1, 1, 0, 0, 0},
        {"\n\n\n", 3, 0, 0, 0, 0, 0},
        {"", 0, 0, 0, 0, 0, 0},
        {"A\r\nB\r\n\r\nC\r\n", 11, 2, 3, 0, 0, 0},
        {"nul\0nul\0\n", 9, 1, 1, 2, 0, 0},
        {"bad \xFF\xC0 utf-8\n\n\xE2\x82", 16, 1, 1, 4, 0, 0},
        /* U+200B alone: the normalisation leaves nothing of it */
        {"\xE2\x80\x8B\n\nA\n\xE2\x80\x8B\nB\n", 13, 1, 2, 0, 0, 1},
        {"<mask> </s> <s> <pad> <unk>\n", 28, 1, 1, 0, 0, 0},
    };
    Config config;
    data_fixture_config(&config);
    data_fixture_train(&config);
    char *good = data_fixture_write("good.txt", "Some good text.\n", 16);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = data_fixture_write("odd.txt", cases[i].text, cases[i].size);
        data_fixture_add(&config.data.train, good);
        data_fixture_add(&config.data.train, path);
        prepare_fixture_run(&config);
        Manifest m = prepare_fixture_load(&config);
        const TextTotals *t = &m.train.shards[1].totals;
        CHECK_MSG(t->documents == cases[i].documents && t->lines == cases[i].lines &&
                      t->dropped_bytes == cases[i].dropped && t->split_lines == cases[i].split &&
                      t->empty_documents == cases[i].empty,
                  "case %zu: %d documents, %d lines, %d dropped, %d split, %d empty", i,
                  (int)t->documents, (int)t->lines, (int)t->dropped_bytes, (int)t->split_lines,
                  (int)t->empty_documents);
        CHECK_INT(t->text_bytes, cases[i].size);
        manifest_free(&m);
        free(path);
        free(config.data.train.items[0]);
        free(config.data.train.items[1]);
        config.data.train.count = 0;
    }
    free(good);
    data_fixture_free(&config);
}

static void test_long_line(void) {
    enum { SIZE = 1 << 20 };
    Config config;
    data_fixture_config(&config);
    data_fixture_train(&config);
    char *text = data_fixture_text(30, SIZE);
    for (size_t i = 0; i + 1 < SIZE; i++) {
        if (text[i] == '\n') text[i] = ' ';
    }
    char *path = data_fixture_write("one_line.txt", text, SIZE);
    data_fixture_add(&config.data.train, path);
    prepare_fixture_run(&config);
    Manifest m = prepare_fixture_load(&config);
    CHECK_INT(m.train.totals.split_lines, 1);
    CHECK_INT(m.train.totals.documents, 1);
    CHECK(m.train.totals.lines >= SIZE / (16 << 10));
    CHECK(m.train.totals.longest_line > SIZE - 1000); /* double spaces count once */
    manifest_free(&m);
    free(text);
    free(path);
    data_fixture_free(&config);
}

/* There may be a manifest of what was done before the fault. */
static void check_incomplete(const Config *config) {
    Manifest m;
    if (manifest_load(&m, config->data.tokens, NULL)) CHECK(!m.complete);
    manifest_free(&m);
}

static void test_bad_texts(void) {
    static const struct {
        const char *file, *message;
    } cases[] = {
        {"tests/hostile/data/truncated.txt.gz",
         "truncated.txt.gz: the compressed data ends too early"},
        {"tests/hostile/data/corrupt.txt.zst", "corrupt.txt.zst: corrupt zstd data at byte"},
        {"tests/hostile/data/no_text.jsonl", "no_text.jsonl:2:1: no member \"text\""},
        {"tests/hostile/data/plain.txt.gz", "plain.txt.gz: no gzip data"},
        {"tests/hostile/data/missing.txt", "tests/hostile/data/missing.txt: cannot open"},
        {"tests/hostile/data", "tests/hostile/data: is a directory"},
    };
    Config config;
    prepare_fixture_create(&config);
    for (size_t threads = 1; threads <= 2; threads++) {
        config.train.threads = threads;
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            free(config.data.valid.items[0]);
            config.data.valid.items[0] = strdup(cases[i].file);
            prepare_fixture_refuses(&config, ERR_FAILED, cases[i].message);
            check_incomplete(&config);
        }
    }
    config.data.train.count = config.data.valid.count = 0;
    prepare_fixture_refuses(&config, ERR_CONFIG, "data.train and data.valid name no text shard");
    config.data.train.count = 2, config.data.valid.count = 1;
    prepare_fixture_rewrite(&config, 0, "\n");
    prepare_fixture_rewrite(&config, 1, "");
    free(config.data.valid.items[0]);
    config.data.valid.items[0] = data_fixture_write("good.txt", "Some good text.\n", 16);
    prepare_fixture_refuses(&config, ERR_FAILED, "text0.txt and 1 more text shards: hold no text");
    REQUIRE(remove(config.tokenizer.model) == 0);
    prepare_fixture_refuses(&config, ERR_FAILED, "spm.model: cannot open");
    data_fixture_free(&config);
}

static void test_bad_manifests(void) {
    static const struct {
        const char *find, *replace, *message;
    } cases[] = {
        {"{", "[", "not valid JSON"},
        {"linformer tokens", "linformer tokenz",
         "manifest.json: format: wanted \"linformer tokens\""},
        {"\"version\":\t1", "\"version\":\t2", "version: 2, this program reads 1"},
        {"\"version\"", "\"virsion\"", "version: missing"},
        {"\"vocab\":\t420", "\"vocab\":\t-20", "vocab: wanted a whole number"},
        {"\"vocab\":\t420", "\"vocab\":\t4.5", "vocab: wanted a whole number"},
        {"\"vocab\":\t420", "\"vocab\":1e99", "vocab: wanted a whole number"},
        {"\"data_hash\":\t\"", "\"data_hash\":\t\"x", "data_hash: wanted 16 hexadecimal digits"},
        {"\"train\"", "\"brain\"", "train: missing"},
        {"\"shards\":\t[{", "\"shards\":\t{\"a\":{", "not valid JSON"},
        {"\"unigram_entropy\":\t",
         "\"unigram_entropy\":\t\"\",\"\":", "train.unigram_entropy: wanted a number"},
        {"\"tokens_file\":\t\"", "\"tokens_file\":\t\"../",
         "train.shards[0].tokens_file: wanted a name without a folder"},
        {".tok\"", ".txt\"",
         "train.shards[0].tokens_file: wanted a name without a folder, ending in \".tok\""},
        {"\"text_mtime_ns\":\t\"", "\"text_mtime_ns\":\t\"z",
         "train.shards[0].text_mtime_ns: wanted"},
        {"\"text_path\":\t", "\"text_path\":\t7,\"x\":\t",
         "train.shards[0].text_path: wanted a string"},
    };
    Config config;
    prepare_fixture_create(&config);
    prepare_fixture_run(&config);
    const char *path = test_temp_path("tokens/manifest.json");
    Bytes good = {0};
    REQUIRE(io_read_file(&good, path, 1 << 20, NULL));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *at = strstr((char *)good.data, cases[i].find);
        REQUIRE(at != NULL);
        char *bad = malloc(good.size + 64);
        size_t before = (size_t)(at - (char *)good.data);
        sprintf(bad, "%.*s%s%s", (int)before, good.data, cases[i].replace,
                at + strlen(cases[i].find));
        REQUIRE(io_write_file(path, bad, strlen(bad), NULL));
        Manifest m;
        Err err = {0};
        if (CHECK_MSG(!manifest_load(&m, config.data.tokens, &err), "case %zu accepted", i)) {
            CHECK_STR_CONTAINS(err.msg, cases[i].message);
            CHECK_STR_CONTAINS(err.msg, "prepare the data again");
        }
        CHECK(prepare_fixture_is_stale(&config, cases[i].message));
        free(bad);
    }
    for (size_t size = 0; size < good.size - 2; size += 97) {
        Manifest m;
        REQUIRE(io_write_file(path, good.data, size, NULL));
        CHECK(!manifest_load(&m, config.data.tokens, NULL));
    }
    prepare_fixture_run(&config); /* and a bad manifest is simply replaced */
    io_bytes_free(&good);
    data_fixture_free(&config);
}

/* Killed at any moment, a preparation leaves nothing half done under a final name, and the next one
 * completes it. */
static void test_killed(void) {
    Config config;
    prepare_fixture_create(&config);
    config.train.threads = 2;
    prepare_fixture_run(&config);
    Manifest whole = prepare_fixture_load(&config);
    for (int round = 0; round < 10; round++) {
        char command[600];
        snprintf(command, sizeof command, "rm -r '%s'", config.data.tokens);
        REQUIRE(system(command) == 0);
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) _exit(prepare_run(&config, NULL) ? 0 : 1);
        struct timespec wait = {0, 8000000L * round};
        nanosleep(&wait, NULL);
        kill(child, SIGKILL);
        int status;
        REQUIRE(waitpid(child, &status, 0) == child);
        char reason[600];
        bool complete = prepare_is_current(&config, reason, sizeof reason);
        CHECK(complete || !io_is_file(test_temp_path("tokens/manifest.json")));
        prepare_fixture_run(&config);
        Manifest m = prepare_fixture_load(&config);
        CHECK(m.data_hash == whole.data_hash);
        CHECK_INT(test_count_files(config.data.tokens),
                  4); /* the child's temporary files are gone */
        manifest_free(&m);
    }
    manifest_free(&whole);
    data_fixture_free(&config);
}

static struct timespec modified(const char *path) {
    struct stat st;
    REQUIRE(stat(path, &st) == 0);
    return st.st_mtim;
}

/* What was ready when a preparation ended early is not prepared again. */
static void test_goes_on(void) {
    Config config;
    prepare_fixture_create(&config);
    char *good = config.data.train.items[1];
    config.data.train.items[1] = strdup("tests/hostile/data/truncated.txt.gz");
    prepare_fixture_refuses(&config, ERR_FAILED, "truncated.txt.gz");
    Manifest m = prepare_fixture_load(&config);
    CHECK(!m.complete);
    REQUIRE(m.train.shard_count == 1 && m.valid.shard_count == 0);
    CHECK_STR_CONTAINS(m.train.shards[0].text_path, "text0.txt");
    struct timespec made = modified(m.train.shards[0].path);
    free(config.data.train.items[1]);
    config.data.train.items[1] = good;
    prepare_fixture_run(&config);
    struct timespec now = modified(m.train.shards[0].path);
    CHECK(made.tv_sec == now.tv_sec && made.tv_nsec == now.tv_nsec);
    manifest_free(&m);
    m = prepare_fixture_load(&config);
    CHECK(m.complete);
    CHECK_INT(m.train.shard_count, 2);
    CHECK_INT(m.train.totals.tokens,
              m.train.shards[0].totals.tokens + m.train.shards[1].totals.tokens);
    manifest_free(&m);
    data_fixture_free(&config);
}

static void test_stop_signal(void) {
    Config config;
    StopSignal signals;
    prepare_fixture_create(&config);
    for (size_t threads = 1; threads <= 3; threads++) {
        config.train.threads = threads;
        stop_signal_install(&signals);
        kill(getpid(), SIGUSR1);
        prepare_fixture_refuses(&config, ERR_SIGNAL, "stopped by SIGUSR1");
        CHECK_INT(test_count_files(config.data.tokens), 0);
        stop_signal_restore(&signals);
    }
    stop_signal_install(&signals); /* an earlier request is forgotten */
    prepare_fixture_run(&config);
    stop_signal_restore(&signals);
    data_fixture_free(&config);
}

/* Where the disk is full (here: files may not grow past a limit) the error says so and nothing half
 * done stays. */
static void test_full_disk(void) {
    Config config;
    prepare_fixture_create(&config);
    struct rlimit limit = {40000, 40000};
    signal(SIGXFSZ, SIG_IGN);
    REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    prepare_fixture_refuses(&config, ERR_FAILED, "cannot write");
    CHECK_INT(test_count_files(config.data.tokens), 0);
    data_fixture_free(&config);
}

/* A text that somebody still writes is not taken for a whole one. */
static void test_changed_while_read(void) {
    Config config;
    prepare_fixture_create(&config);
    pid_t child = fork();
    REQUIRE(child >= 0);
    for (long i = 0; child == 0;
         i++) { /* ends by itself too, should the parent not get to kill it */
        if (i == 10000) _exit(0);
        struct timespec pause = {0, 1000000};
        prepare_fixture_set_time(config.data.train.items[0], i);
        nanosleep(&pause, NULL);
    }
    prepare_fixture_refuses(&config, ERR_FAILED, "text0.txt: changed while it was read");
    kill(child, SIGKILL);
    REQUIRE(waitpid(child, NULL, 0) == child);
    prepare_fixture_run(&config);
    data_fixture_free(&config);
}

const Test tests_prepare_faults[] = {
    {"held_out_text_is_not_trained_on", test_held_out_text_is_not_trained_on, 0},
    {"odd_texts", test_odd_texts, 0},
    {"long_line", test_long_line, 0},
    {"bad_texts", test_bad_texts, 0},
    {"bad_manifests", test_bad_manifests, 0},
    {"killed", test_killed, 0},
    {"goes_on", test_goes_on, 0},
    {"stop_signal", test_stop_signal, 0},
    {"full_disk", test_full_disk, 0},
    {"changed_while_read", test_changed_while_read, 0},
    {0}};
