#include "json_number.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

bool json_add_number(cJSON *object, const char *name, double value, int digits) {
    char text[40];
    if (!isfinite(value)) return cJSON_AddNullToObject(object, name) != NULL;
    snprintf(text, sizeof text, "%.*g", digits, value);
    return cJSON_AddRawToObject(object, name, text) != NULL;
}

bool json_add_count(cJSON *object, const char *name, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return cJSON_AddRawToObject(object, name, text) != NULL;
}
