#include "json_fields.h"

#include <cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double COUNT_LIMIT = 9007199254740992; /* 2^53: above it doubles skip whole numbers */

bool json_add_count(cJSON *object, const char *name, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return cJSON_AddRawToObject(object, name, text) != NULL;
}

bool json_add_number(cJSON *object, const char *name, double value, int digits) {
    char text[40];
    if (!isfinite(value)) return cJSON_AddNullToObject(object, name) != NULL;
    snprintf(text, sizeof text, "%.*g", digits, value);
    return cJSON_AddRawToObject(object, name, text) != NULL;
}

bool json_add_hash(cJSON *object, const char *name, uint64_t hash) {
    char text[20];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    return cJSON_AddStringToObject(object, name, text) != NULL;
}

bool json_take_count(uint64_t *out, const cJSON *item) {
    if (!cJSON_IsNumber(item)) return false;
    double value = item->valuedouble;
    if (!(value >= 0 && value < COUNT_LIMIT) || value != floor(value)) return false;
    *out = (uint64_t)value;
    return true;
}

bool json_take_hash(uint64_t *out, const cJSON *item) {
    const char *text = cJSON_GetStringValue(item);
    if (!text || strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return false;
    *out = strtoull(text, NULL, 16);
    return true;
}
