/* Preparing small texts, and what must come of it. */
#ifndef PREPARE_FIXTURE_H
#define PREPARE_FIXTURE_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"
#include "prepare.h"

/* Two training shards, text0.txt and text1.txt, a held-out one, text2.txt, and the tokenizer. */
void prepare_fixture_create(Config *out);

/* Prepares; ends the test on failure. */
void prepare_fixture_run(const Config *config);

/* The manifest; ends the test where there is none (manifest_free). */
Manifest prepare_fixture_load(const Config *config);

/* Checks that the tokens are not current, for a reason that contains `why`. */
bool prepare_fixture_is_stale(const Config *config, const char *why);

/* Checks that preparing fails with this code and a message that contains `part`. */
void prepare_fixture_refuses(const Config *config, ErrCode code, const char *part);

/* Replaces a training shard's text. */
void prepare_fixture_rewrite(const Config *config, size_t shard, const char *text);

/* Sets a file's modification time, in seconds. */
void prepare_fixture_set_time(const char *path, long seconds);

#endif
