/* What the tests of the configuration share. */
#ifndef CONFIG_FIXTURE_H
#define CONFIG_FIXTURE_H

#include "config.h"

/* Plain writing: thousands of small files that need not survive a power cut.  Failing ends the
 * test. */
void fixture_write(const char *path, const char *text, size_t size);

/* Loads, or ends the test as failed. */
void fixture_load(Config *out, const char *path, const char *const *overrides, size_t count);

/* config_from_yaml of a text, or ends the test as failed. */
void fixture_parse(Config *out, const char *text);

/* Checks that YAML and back gives the same members, from memory and as a file in another folder. */
void fixture_check_round_trip(const Config *config);

#endif
