/* One 64-byte aligned block of memory, carved once before step 0.
 * The layout function runs twice: on a counting arena (base NULL) to learn the size, then on the
 * real one. */
#ifndef ARENA_H
#define ARENA_H

#include <stdbool.h>
#include <stddef.h>

#include "err.h"

enum { ARENA_ALIGN = 64 };

typedef struct Arena {
    unsigned char *base; /* NULL while counting */
    size_t size;         /* bytes of the block */
    size_t used;         /* bytes handed out so far, alignment included */
    /* a product or sum of sizes did not fit size_t, or the block was too small */
    bool overflow;
} Arena;

/* Allocates a zeroed block of `bytes` (huge pages where the system offers them).  Fails with the
 * size in the message. */
bool arena_create(Arena *arena, size_t bytes, Err *err);
void arena_destroy(Arena *arena); /* accepts a zeroed Arena */

/* Makes all pages of the block resident; what it holds stays. */
void arena_touch(Arena *arena);

/* Next `count` elements of `elem_size` bytes, 64-byte aligned.  On a counting arena (base NULL)
 * counts and returns NULL. Sets arena->overflow instead of failing, to be checked once after a
 * layout.  Sanitizer builds leave a poisoned gap behind every tensor. */
void *arena_take(Arena *arena, size_t count, size_t elem_size);

/* a * b into *out; false on overflow. */
bool size_mul(size_t a, size_t b, size_t *out);

#endif
