/* Members of JSON objects whose numbers must come back as they were: counts, doubles and hashes. */
#ifndef JSON_FIELDS_H
#define JSON_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

struct cJSON;

/* Digits that bring every double back bit by bit; cJSON's own printing stops at 15 where it finds
 * the result close enough. */
enum { JSON_EXACT = 17 };

/* Each adds a member and returns false without memory. */
bool json_add_count(struct cJSON *object, const char *name, uint64_t value);

/* null where the value is not finite. */
bool json_add_number(struct cJSON *object, const char *name, double value, int digits);

/* 16 hex digits: a number would lose bits above 2^53. */
bool json_add_hash(struct cJSON *object, const char *name, uint64_t hash);

/* A whole number below 2^53, or 16 hex digits; false, *out as it was, for any other item and
 * for NULL. */
bool json_take_count(uint64_t *out, const struct cJSON *item);
bool json_take_hash(uint64_t *out, const struct cJSON *item);

#endif
