#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "utf8.h"

enum { BUFFERS = 8, BUFFER_SIZE = 40 };

/* Paths and texts may hold bytes that are no UTF-8, JSON may not: they are written as U+FFFD. */
static void put_utf8(const char *text) {
    for (size_t left = strlen(text); left > 0;) {
        size_t length = utf8_length((const unsigned char *)text, left);
        fwrite(length ? text : "\xEF\xBF\xBD", 1, length ? length : 3, stdout);
        text += length ? length : 1;
        left -= length ? length : 1;
    }
}

bool print_json(cJSON *object, Err *err) {
    char *text = object ? cJSON_PrintUnformatted(object) : NULL;
    cJSON_Delete(object);
    if (!text) return err_set(err, ERR_FAILED, "out of memory for the JSON output");
    put_utf8(text);
    putchar('\n');
    cJSON_free(text);
    return true;
}

static char *next_buffer(void) {
    static char buffers[BUFFERS][BUFFER_SIZE];
    static size_t next;
    return buffers[next++ % BUFFERS];
}

const char *show_count(size_t count) {
    char digits[24], *out = next_buffer();
    int length = snprintf(digits, sizeof digits, "%zu", count), at = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

const char *show_bytes(size_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 1000 && unit + 1 < sizeof units / sizeof *units) value /= 1024, unit++;
    char *out = next_buffer();
    snprintf(out, BUFFER_SIZE, "%.*f %s",
             unit == 0 || value >= 99.95 ? 0
             : value >= 9.995            ? 1
                                         : 2,
             value, units[unit]);
    return out;
}

const char *show_hash(unsigned long long hash) {
    char *out = next_buffer();
    snprintf(out, BUFFER_SIZE, "%016llx", hash);
    return out;
}
