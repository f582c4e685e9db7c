#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../src/data/tokenizer_record.h"
#include "data_fixture.h"
#include "file_lock.h"
#include "harness.h"
#include "io.h"
#include "prepare_fixture.h"
#include "stop_signal.h"
#include "tokenizer.h"

enum { TEXT_SIZE = 60000 };

/* A training text of the configuration. */
static void add_text(Config *config, const char *name, uint64_t key) {
    char *text = data_fixture_text(key, TEXT_SIZE),
         *path = data_fixture_write(name, text, TEXT_SIZE);
    data_fixture_add(&config->data.train, path);
    free(text);
    free(path);
}

static void create(Config *config) {
    data_fixture_config(config);
    add_text(config, "a.txt", 1);
    add_text(config, "b.txt", 2);
}

/* As if a file or an override had the key. */
static void give(Config *config, const char *key) {
    static char place[] = "here";
    size_t count = 0, at = SIZE_MAX;
    for (; config_key_path(count); count++) {
        if (strcmp(config_key_path(count), key) == 0) at = count;
    }
    config->given_at = calloc(count, sizeof *config->given_at);
    REQUIRE(at < count && config->given_at);
    config->given_at[at] = place;
}

static uint64_t hash_of(const char *path) {
    uint64_t hash = 0;
    REQUIRE(io_hash_file(&hash, path, NULL));
    return hash;
}

static void train(const Config *config) {
    Err err = {0};
    CHECK_MSG(tokenizer_train(config, &err), "%s", err.msg);
}

static void ensure(const Config *config) {
    Err err = {0};
    CHECK_MSG(tokenizer_ensure(config, 0, &err), "%s", err.msg);
}

static TokenizerState state_of(const Config *config) {
    Err err = {0};
    TokenizerState state = TOKENIZER_MISSING;
    CHECK_MSG(tokenizer_state(&state, config, &err), "%s", err.msg);
    return state;
}

/* Runs of other seeds and thread counts share one tokenizer. */
static void test_seed_and_threads_do_not_matter(void) {
    Config config;
    create(&config);
    config.tokenizer.sample_bytes = TEXT_SIZE; /* half of the text: there is a choice */
    train(&config);
    uint64_t first = hash_of(config.tokenizer.model);
    config.train.seed = 8;
    config.train.threads = 3;
    train(&config);
    CHECK(hash_of(config.tokenizer.model) == first);
    CHECK_INT(state_of(&config), TOKENIZER_CURRENT);
    data_fixture_free(&config);
}

static void test_sample_bytes_are_heeded(void) {
    Config config;
    create(&config);
    train(&config);
    uint64_t all = hash_of(config.tokenizer.model);
    config.tokenizer.sample_bytes = TEXT_SIZE / 2;
    train(&config);
    CHECK(hash_of(config.tokenizer.model) != all);
    config.tokenizer.sample_bytes = 10 * TEXT_SIZE;
    train(&config);
    CHECK(hash_of(config.tokenizer.model) == all);
    data_fixture_free(&config);
}

static void test_state(void) {
    Config config;
    create(&config);
    CHECK_INT(state_of(&config), TOKENIZER_MISSING);
    train(&config);
    CHECK_INT(state_of(&config), TOKENIZER_CURRENT);
    /* touched, and under another name: the contents decide */
    prepare_fixture_set_time(config.data.train.items[0], 1000);
    CHECK_INT(state_of(&config), TOKENIZER_CURRENT);
    char *moved = strdup(test_temp_path("moved.txt"));
    REQUIRE(rename(config.data.train.items[1], moved) == 0);
    free(config.data.train.items[1]);
    config.data.train.items[1] = moved;
    CHECK_INT(state_of(&config), TOKENIZER_CURRENT);
    /* other settings */
    config.tokenizer.sample_bytes--;
    CHECK_INT(state_of(&config), TOKENIZER_STALE);
    config.tokenizer.sample_bytes++;
    config.tokenizer.type = TOKENIZER_BPE;
    CHECK_INT(state_of(&config), TOKENIZER_STALE);
    config.tokenizer.type = TOKENIZER_UNIGRAM;
    CHECK_INT(state_of(&config), TOKENIZER_CURRENT);
    /* a text less; another of the same size and name */
    config.data.train.count = 1;
    CHECK_INT(state_of(&config), TOKENIZER_STALE);
    config.data.train.count = 2;
    char *text = data_fixture_text(3, TEXT_SIZE);
    prepare_fixture_rewrite(&config, 1, text);
    CHECK_INT(state_of(&config), TOKENIZER_STALE);
    free(text);
    /* a record that is cut, or gone */
    const char *record = test_temp_path("spm.model.made_from");
    REQUIRE(truncate(record, 10) == 0);
    CHECK_INT(state_of(&config), TOKENIZER_STALE);
    REQUIRE(truncate(record, 0) == 0);
    CHECK_INT(state_of(&config), TOKENIZER_STALE);
    REQUIRE(remove(record) == 0);
    CHECK_INT(state_of(&config), TOKENIZER_UNRECORDED);
    data_fixture_free(&config);
}

/* At its default place a tokenizer follows the text; one that the config names stays. */
static void test_ensure(void) {
    Config config;
    create(&config);
    ensure(&config);
    uint64_t first = hash_of(config.tokenizer.model);
    char *text = data_fixture_text(3, TEXT_SIZE);
    Config given = config;
    give(&given, "tokenizer.model");
    prepare_fixture_rewrite(&config, 0, text);
    ensure(&given);
    CHECK(hash_of(config.tokenizer.model) == first);
    Err err = {0};
    CHECK(tokenizer_ensure(&config, first, &err)); /* a run that goes on keeps its own */
    CHECK(hash_of(config.tokenizer.model) == first);
    ensure(&config);
    CHECK(hash_of(config.tokenizer.model) != first);
    CHECK_INT(state_of(&config), TOKENIZER_CURRENT);
    REQUIRE(remove(config.tokenizer.model) == 0);
    ensure(&given);
    CHECK(io_is_file(config.tokenizer.model));
    /* not trained here: used at either place */
    REQUIRE(remove(test_temp_path("spm.model.made_from")) == 0);
    prepare_fixture_rewrite(&config, 1, text);
    uint64_t other = hash_of(config.tokenizer.model);
    ensure(&config);
    CHECK(hash_of(config.tokenizer.model) == other);
    free(text);
    free(given.given_at);
    data_fixture_free(&config);
}

/* The configuration takes over what the file is, unless it says something else. */
static void test_take_config(void) {
    Config config;
    Tokenizer *t;
    Err err = {0};
    create(&config);
    config.tokenizer.type = TOKENIZER_BPE;
    train(&config);
    REQUIRE(tokenizer_load(&t, config.tokenizer.model, &err));
    config.tokenizer.type = TOKENIZER_UNIGRAM;
    config.tokenizer.vocab_size = 32000;
    Config other = config;
    CHECK(tokenizer_take_config(&other, t, &err));
    CHECK_INT(other.tokenizer.type, TOKENIZER_BPE);
    CHECK_INT(other.tokenizer.vocab_size, DATA_FIXTURE_VOCAB);
    CHECK_INT(other.model.vocab, DATA_FIXTURE_VOCAB);
    other = config;
    give(&other, "tokenizer.type");
    CHECK(!tokenizer_take_config(&other, t, &err));
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_STR_CONTAINS(err.msg, "tokenizer.type = unigram, but ");
    CHECK_STR_CONTAINS(err.msg, "spm.model is a bpe model");
    free(other.given_at);
    other = config;
    give(&other, "tokenizer.vocab_size");
    CHECK(!tokenizer_take_config(&other, t, &err));
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_STR_CONTAINS(err.msg, "tokenizer.vocab_size = 32000, but ");
    CHECK_STR_CONTAINS(err.msg, "has 420 pieces");
    free(other.given_at);
    tokenizer_destroy(t);
    data_fixture_free(&config);
}

static void *send_signal(void *delay) {
    nanosleep(delay, NULL);
    kill(getpid(), SIGTERM);
    return NULL;
}

/* Sampling ends at once; sentencepiece, which cannot, is left behind. */
static void test_stop_signal(void) {
    enum { LARGE = 4 << 20 };
    Config config;
    Err err = {0};
    StopSignal signals;
    struct timespec delay = {0, 300000000};
    pthread_t thread;
    create(&config);
    stop_signal_install(&signals);
    kill(getpid(), SIGTERM);
    CHECK(!tokenizer_train(&config, &err));
    CHECK_INT(err.code, ERR_SIGNAL);
    CHECK_STR_CONTAINS(err.msg, "stopped by SIGTERM");
    stop_signal_restore(&signals);

    char *text = data_fixture_text(9, LARGE);
    prepare_fixture_rewrite(&config, 0, text);
    config.tokenizer.sample_bytes = LARGE;
    config.tokenizer.vocab_size = 900;
    stop_signal_install(&signals);
    REQUIRE(pthread_create(&thread, NULL, send_signal, &delay) == 0);
    err = (Err){0};
    CHECK(!tokenizer_train(&config, &err));
    CHECK_INT(err.code, ERR_SIGNAL);
    CHECK(!io_is_file(config.tokenizer.model));
    CHECK_INT(test_count_files(test_temp_dir()), 2); /* nothing but the texts */
    pthread_join(thread, NULL);
    test_end(); /* the trainer may still be at work */
}

/* The second process waits for the first. */
static void test_lock(void) {
    Config config;
    int first, second;
    Err err = {0};
    StopSignal signals;
    pthread_t thread;
    struct timespec delay = {0, 200000000};
    data_fixture_config(&config);
    CHECK(tokenizer_lock(&first, &config, &err));
    CHECK(prepare_lock(&second, &config, &err)); /* they are two locks */
    CHECK(first >= 0 && second >= 0);
    file_unlock(&second);
    stop_signal_install(&signals);
    REQUIRE(pthread_create(&thread, NULL, send_signal, &delay) == 0);
    CHECK(!tokenizer_lock(&second, &config, &err));
    CHECK_INT(err.code, ERR_SIGNAL);
    CHECK_INT(second, -1);
    pthread_join(thread, NULL);
    stop_signal_restore(&signals);
    file_unlock(&first);
    CHECK(tokenizer_lock(&second, &config, &err));
    file_unlock(&second);
    file_unlock(&second);
    data_fixture_free(&config);
}

const Test tests_tokenizer_record[] = {
    {"seed_and_threads_do_not_matter", test_seed_and_threads_do_not_matter, 0},
    {"sample_bytes_are_heeded", test_sample_bytes_are_heeded, 0},
    {"state", test_state, 0},
    {"ensure", test_ensure, 0},
    {"take_config", test_take_config, 0},
    {"stop_signal", test_stop_signal, 0},
    {"lock", test_lock, 0},
    {0}};
