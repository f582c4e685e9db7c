/* Text, a tokenizer trained on it and a configuration, for tests of the data modules. */
#ifndef DATA_FIXTURE_H
#define DATA_FIXTURE_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"

enum { DATA_FIXTURE_VOCAB = 420 };

/* Sentences of made-up words, a line each, a blank line after every few; malloc'd, a function of
 * key and size. */
char *data_fixture_text(uint64_t key, size_t size);

/* Writes a file of the test's temporary folder; ends the test on failure.  Returns its path
 * (malloc'd). */
char *data_fixture_write(const char *name, const void *data, size_t size);

/* A configuration over the temporary folder: tokenizer spm.model (not trained yet), tokens in
 * tokens/, one thread. */
void data_fixture_config(Config *out);

/* Appends a text shard to config->data.train or valid. */
void data_fixture_add(PathList *list, const char *path);

/* Trains config's tokenizer on 60 KB of data_fixture_text; ends the test on failure. */
void data_fixture_train(Config *config);

void data_fixture_free(Config *config);

#endif
