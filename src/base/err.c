#include "err.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool err_set(Err *err, ErrCode code, const char *format, ...) {
    if (!err) return false;
    char text[sizeof err->msg]; /* the arguments may point into err->msg */
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(err->msg, text, sizeof text);
    err->code = code;
    return false;
}

bool err_context(Err *err, const char *format, ...) {
    if (!err) return false;
    char prefix[sizeof err->msg];
    va_list args;
    va_start(args, format);
    vsnprintf(prefix, sizeof prefix, format, args);
    va_end(args);

    char text[sizeof err->msg + sizeof prefix + 2];
    snprintf(text, sizeof text, "%s: %s", prefix, err->msg);
    memcpy(err->msg, text, sizeof err->msg);
    err->msg[sizeof err->msg - 1] = 0;
    return false;
}
