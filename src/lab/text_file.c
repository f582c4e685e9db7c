#include "text_file.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>

bool text_file_open(AtomicFile *out, Err *err, const char *folder, const char *name, ...) {
    char text[128];
    va_list args;
    va_start(args, name);
    vsnprintf(text, sizeof text, name, args);
    va_end(args);
    *out = (AtomicFile){0};
    char *path = io_path_join(folder, text);
    bool ok = path ? io_atomic_open(out, path, err)
                   : err_set(err, ERR_FAILED, "out of memory for a path");
    free(path);
    return ok;
}

void text_file_put(AtomicFile *file, const char *format, ...) {
    char text[1001];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert(length >= 0 && (size_t)length < sizeof text);
    io_atomic_write(file, text, (size_t)length);
}
