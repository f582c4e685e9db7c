/* What the messages about a task's files are made of. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "task_internal.h"
#include "utf8.h"

bool task_fail(const TaskReader *r, size_t line, Err *err, const char *format, ...) {
    char message[sizeof err->msg];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return err_set(err, ERR_FAILED, "%.400s:%zu: %s", r->place, line, message);
}

const char *task_show(char *out, size_t size, Span word) {
    size_t filled = 0, at = 0;
    /* an ellipsis needs three bytes and the end one */
    size_t room = word.size < size ? word.size : size - 4;
    while (at < word.size) {
        const unsigned char *p = (const unsigned char *)word.text + at;
        size_t length = utf8_length(p, word.size - at);
        if (length == 0) length = 1;
        if (filled + length > room) {
            strcpy(out + filled, "...");
            return out;
        }
        bool control = p[0] < 0x20 || p[0] == 0x7F;
        if (control)
            out[filled] = '?';
        else
            memcpy(out + filled, p, length);
        filled += length;
        at += length;
    }
    out[filled] = 0;
    return out;
}

void task_append(char *out, size_t size, const char *text) {
    size_t used = strlen(out);
    if (used + strlen(text) < size) strcpy(out + used, text);
}
