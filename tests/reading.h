/* Everything a text reader gives, as one string to compare. */
#ifndef READING_H
#define READING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../src/data/text_reader.h"
#include "err.h"

/* What a reader gave: each line followed by "\n", each document end as "--\n". */
typedef struct Reading {
    bool ok;
    Err err;
    char *text;
    size_t size, capacity;
    TextCounts counts;
    uint64_t hash;
} Reading;

/* text is malloc'd; on failure err is set.  Checks what every piece promises. */
Reading read_path(const char *path);
Reading read_memory(const void *data, size_t size, const char *name);

#endif
