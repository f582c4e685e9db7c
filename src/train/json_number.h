/* Numbers in JSON that read back bit by bit; cJSON's own printing rounds the last digits. */
#ifndef JSON_NUMBER_H
#define JSON_NUMBER_H

#include <cJSON.h>
#include <stdbool.h>
#include <stdint.h>

enum { JSON_EXACT = 17 }; /* digits that bring any double back */

/* Adds a member with so many digits, null where the value is no number or infinite.  False without
 * memory. */
bool json_add_number(cJSON *object, const char *name, double value, int digits);
bool json_add_count(cJSON *object, const char *name, uint64_t value);

#endif
