/* A random sample of lines of bounded size, in one pass: every line gets a random number from its
 * place in the text, and the lines with the smallest numbers are kept.  Which lines those are is a
 * function of (seed, text, size). */
#ifndef LINE_SAMPLE_H
#define LINE_SAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

typedef struct SampleLine {
    uint64_t order; /* the random number */
    uint64_t place; /* lines seen before it */
    char *text;
    size_t size;
} SampleLine;

typedef struct LineSample {
    SampleLine
        *lines; /* a heap, the largest `order` first; in text order after line_sample_finish */
    size_t count, capacity;
    uint64_t key, seen;
    uint64_t bytes, limit;
} LineSample;

void line_sample_start(LineSample *sample, uint64_t seed, uint64_t limit_bytes);
bool line_sample_add(LineSample *sample, const char *text, size_t size, Err *err);
void line_sample_finish(LineSample *sample);
void line_sample_free(LineSample *sample); /* accepts a zeroed one */

#endif
