#include "line_sample.h"

#include <stdlib.h>
#include <string.h>

#include "rng.h"

void line_sample_start(LineSample *sample, uint64_t seed, uint64_t limit_bytes) {
    *sample = (LineSample){.key = rng_key(seed, RNG_SAMPLE, 0, 0), .limit = limit_bytes};
}

static bool after(const SampleLine *a, const SampleLine *b) {
    return a->order != b->order ? a->order > b->order : a->place > b->place;
}

static void swap(SampleLine *a, SampleLine *b) {
    SampleLine t = *a;
    *a = *b;
    *b = t;
}

static void sift_up(SampleLine *heap, size_t i) {
    for (; i > 0 && after(&heap[i], &heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&heap[i], &heap[(i - 1) / 2]);
}

static void sift_down(SampleLine *heap, size_t count) {
    for (size_t i = 0;;) {
        size_t child = 2 * i + 1;
        if (child >= count) return;
        if (child + 1 < count && after(&heap[child + 1], &heap[child])) child++;
        if (!after(&heap[child], &heap[i])) return;
        swap(&heap[i], &heap[child]);
        i = child;
    }
}

bool line_sample_add(LineSample *s, const char *text, size_t size, Err *err) {
    SampleLine line = {.order = rng_u64(s->key, s->seen), .place = s->seen, .size = size};
    s->seen++;
    bool full = s->bytes + size > s->limit;
    if (full && (s->count == 0 || after(&line, &s->lines[0]))) return true;
    if (s->count == s->capacity) {
        size_t wanted = s->capacity ? 2 * s->capacity : 1024;
        SampleLine *grown = realloc(s->lines, wanted * sizeof *grown);
        if (!grown) return err_set(err, ERR_FAILED, "no memory for a sample of %zu lines", wanted);
        s->lines = grown;
        s->capacity = wanted;
    }
    line.text = malloc(size);
    if (!line.text)
        return err_set(err, ERR_FAILED, "no memory for a sample of %llu bytes",
                       (unsigned long long)s->bytes);
    memcpy(line.text, text, size);
    s->lines[s->count] = line;
    sift_up(s->lines, s->count++);
    s->bytes += size;
    while (s->bytes > s->limit) {
        s->bytes -= s->lines[0].size;
        free(s->lines[0].text);
        s->lines[0] = s->lines[--s->count];
        sift_down(s->lines, s->count);
    }
    return true;
}

static int by_place(const void *a, const void *b) {
    uint64_t x = ((const SampleLine *)a)->place, y = ((const SampleLine *)b)->place;
    return x < y ? -1 : x > y;
}

void line_sample_finish(LineSample *sample) {
    if (sample->count) qsort(sample->lines, sample->count, sizeof *sample->lines, by_place);
}

void line_sample_free(LineSample *sample) {
    for (size_t i = 0; i < sample->count; i++) free(sample->lines[i].text);
    free(sample->lines);
    *sample = (LineSample){0};
}
