#define _GNU_SOURCE
#include "prepare_fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "data_fixture.h"
#include "harness.h"
#include "io.h"

void prepare_fixture_run(const Config *config) {
    Err err = {0};
    if (!prepare_run(config, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    char reason[600];
    CHECK_MSG(prepare_is_current(config, reason, sizeof reason), "stale right after: %s", reason);
}

Manifest prepare_fixture_load(const Config *config) {
    Manifest m;
    Err err = {0};
    if (!manifest_load(&m, config->data.tokens, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    return m;
}

bool prepare_fixture_is_stale(const Config *config, const char *why) {
    char reason[600];
    if (!CHECK(!prepare_is_current(config, reason, sizeof reason))) return false;
    return CHECK_STR_CONTAINS(reason, why);
}

/* Prepares whatever is asked for must fail like this. */
void prepare_fixture_refuses(const Config *config, ErrCode code, const char *part) {
    Err err = {0};
    if (!CHECK(!prepare_run(config, &err))) return;
    CHECK_STR_CONTAINS(err.msg, part);
    CHECK_INT(err.code, code);
}

/* Two training shards and a held-out one, and the tokenizer. */
void prepare_fixture_create(Config *config) {
    data_fixture_config(config);
    data_fixture_train(config);
    static const size_t sizes[] = {300000, 30000, 20000};
    for (size_t i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "text%zu.txt", i);
        char *text = data_fixture_text(10 + i, sizes[i]),
             *path = data_fixture_write(name, text, sizes[i]);
        data_fixture_add(i < 2 ? &config->data.train : &config->data.valid, path);
        free(text);
        free(path);
    }
}

void prepare_fixture_rewrite(const Config *config, size_t shard, const char *text) {
    REQUIRE(io_write_file(config->data.train.items[shard], text, strlen(text), NULL));
}

void prepare_fixture_set_time(const char *path, long seconds) {
    struct timespec times[2] = {{seconds, 0}, {seconds, 0}};
    REQUIRE(utimensat(AT_FDCWD, path, times, 0) == 0);
}
