/* A text file of a folder, written by format and appearing complete or not at all. */
#ifndef TEXT_FILE_H
#define TEXT_FILE_H

#include <stdbool.h>

#include "err.h"
#include "io.h"

/* The name is formatted too. */
bool text_file_open(AtomicFile *out, Err *err, const char *folder, const char *name, ...)
    __attribute__((format(printf, 4, 5)));

/* At most 1000 bytes at a time; io_atomic_commit reports errors. */
void text_file_put(AtomicFile *file, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
