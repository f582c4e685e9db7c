#include "data_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "io.h"
#include "log.h"
#include "rng.h"
#include "tokenizer.h"

enum { TRAIN_SIZE = 60000 };

/* Word i of the made-up language: two to four syllables; low numbers are drawn more often. */
static size_t put_word(char *out, uint64_t i) {
    static const char *const syllables[] = {"ka", "ro",  "mi", "tes", "lun", "ve",
                                            "or", "sha", "pi", "dun", "el",  "wa"};
    enum { SYLLABLES = sizeof syllables / sizeof *syllables };
    size_t size = 0, count = 2 + i % 3;
    for (size_t s = 0; s < count; s++) {
        const char *syllable = syllables[rng_below(i, s, SYLLABLES)];
        memcpy(out + size, syllable, strlen(syllable));
        size += strlen(syllable);
    }
    return size;
}

char *data_fixture_text(uint64_t key, size_t size) {
    enum { WORDS = 600, LONGEST_WORD = 16 };
    char *text = malloc(size + LONGEST_WORD + 1);
    REQUIRE(text != NULL);
    size_t at = 0;
    for (uint64_t i = 0; at < size; i++) {
        double u = rng_uniform(key, 2 * i);
        at += put_word(text + at, (uint64_t)(WORDS * u * u)); /* squared: frequent and rare words */
        uint64_t end = rng_below(key, 2 * i + 1, 64);
        if (end < 6)
            at += (size_t)snprintf(text + at, 4, ".\n%s", end == 0 ? "\n" : "");
        else
            text[at++] = ' ';
    }
    text[size - 1] = '\n';
    text[size] = 0;
    return text;
}

static char *copy(const char *text) {
    char *out = malloc(strlen(text) + 1);
    REQUIRE(out != NULL);
    return strcpy(out, text);
}

char *data_fixture_write(const char *name, const void *data, size_t size) {
    Err err = {0};
    const char *path = test_temp_path(name);
    if (!io_write_file(path, data, size, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    return copy(path);
}

void data_fixture_config(Config *out) {
    *out = (Config){0};
    log_quiet(true);
    out->tokenizer.model = copy(test_temp_path("spm.model"));
    out->tokenizer.vocab_size = DATA_FIXTURE_VOCAB;
    out->tokenizer.sample_bytes = 1 << 20;
    out->data.tokens = copy(test_temp_path("tokens"));
    out->train.threads = 1;
    out->train.seed = 7;
}

void data_fixture_add(PathList *list, const char *path) {
    list->items = realloc(list->items, (list->count + 1) * sizeof *list->items);
    REQUIRE(list->items != NULL);
    list->items[list->count++] = copy(path);
}

void data_fixture_train(Config *config) {
    Err err = {0};
    char *text = data_fixture_text(1, TRAIN_SIZE),
         *path = data_fixture_write("tokenizer.txt", text, TRAIN_SIZE);
    PathList saved = config->data.train;
    config->data.train = (PathList){&path, 1};
    bool ok = tokenizer_train(config, &err);
    config->data.train = saved;
    free(text);
    free(path);
    if (!ok) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
}

static void free_list(PathList *list) {
    for (size_t i = 0; i < list->count; i++) free(list->items[i]);
    free(list->items);
}

void data_fixture_free(Config *config) {
    free(config->tokenizer.model);
    free(config->data.tokens);
    free_list(&config->data.train);
    free_list(&config->data.valid);
}
