#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, madvise */
#include "arena.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#if defined(__SANITIZE_ADDRESS__)
#define ARENA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_ASAN 1
#endif
#endif

#ifdef ARENA_ASAN
#include <sanitizer/asan_interface.h>
enum { GAP = ARENA_ALIGN };
#else
enum { GAP = 0 };
#endif

bool size_mul(size_t a, size_t b, size_t *out) {
    return !__builtin_mul_overflow(a, b, out);
}

#ifdef ARENA_ASAN

/* From the heap, so that the sanitizer also watches both ends of the block. */
static void *block_alloc(size_t bytes) {
    void *block = NULL;
    if (posix_memalign(&block, ARENA_ALIGN, bytes ? bytes : 1) != 0) return NULL;
    memset(block, 0, bytes);
    __asan_poison_memory_region(block, bytes);
    return block;
}

/* Resident since the memset above, and poisoned. */
static void block_touch(unsigned char *block, size_t bytes) {
    (void)block;
    (void)bytes;
}

static void block_free(void *block, size_t bytes) {
    __asan_unpoison_memory_region(block, bytes);
    free(block);
}

#else

static const size_t PAGE = 4096, HUGE_PAGE = (size_t)2 << 20;

/* Zero pages straight from the system: what is never touched never becomes resident. */
static void *block_alloc(size_t bytes) {
    size_t slack = bytes >= HUGE_PAGE ? HUGE_PAGE : 0;
    if (bytes == 0) bytes = 1;
    if (bytes > SIZE_MAX - slack) return NULL;
    unsigned char *raw =
        mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return NULL;
    if (!slack) return raw;

    /* huge pages need their own alignment; the unused head and tail go back */
    size_t head = (HUGE_PAGE - (uintptr_t)raw % HUGE_PAGE) % HUGE_PAGE;
    size_t tail_start = (head + bytes + PAGE - 1) / PAGE * PAGE;
    if (head) munmap(raw, head);
    if (bytes + slack > tail_start) munmap(raw + tail_start, bytes + slack - tail_start);
#ifdef MADV_HUGEPAGE
    madvise(raw + head, bytes, MADV_HUGEPAGE); /* a wish: refused on systems without huge pages */
#endif
    return raw + head;
}

/* Writes a byte of each page, by all threads: clearing new pages takes longer than one can read
 * memory. */
static void block_touch(unsigned char *block, size_t bytes) {
    volatile unsigned char *p = block;
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < bytes; i += PAGE) p[i] |= 0;
}

static void block_free(void *block, size_t bytes) {
    munmap(block, bytes ? bytes : 1);
}

#endif

bool arena_create(Arena *arena, size_t bytes, Err *err) {
    *arena = (Arena){0};
    void *block = block_alloc(bytes);
    if (!block) {
        return err_set(err, ERR_FAILED, "out of memory: %zu bytes (%.1f MiB) wanted in one block",
                       bytes, (double)bytes / (1 << 20));
    }
    arena->base = block;
    arena->size = bytes;
    return true;
}

void arena_destroy(Arena *arena) {
    if (arena->base) block_free(arena->base, arena->size);
    *arena = (Arena){0};
}

void arena_touch(Arena *arena) {
    if (arena->base) block_touch(arena->base, arena->size);
}

void *arena_take(Arena *arena, size_t count, size_t elem_size) {
    size_t bytes, rounded, end;
    if (!size_mul(count, elem_size, &bytes) ||
        __builtin_add_overflow(bytes, ARENA_ALIGN - 1 + GAP, &rounded) ||
        __builtin_add_overflow(arena->used, rounded / ARENA_ALIGN * ARENA_ALIGN, &end)) {
        arena->overflow = true;
        return NULL;
    }
    if (!arena->base) {
        arena->used = end;
        return NULL;
    }
    if (end > arena->size) {
        arena->overflow = true;
        return NULL;
    }
    unsigned char *taken = arena->base + arena->used;
    arena->used = end;
    assert((uintptr_t)taken % ARENA_ALIGN == 0);
#ifdef ARENA_ASAN
    /* an arena may be laid out again from the start: open this tensor, close the rest of its
     * slot */
    __asan_unpoison_memory_region(taken, bytes);
    __asan_poison_memory_region(taken + bytes, (size_t)(arena->base + end - (taken + bytes)));
#endif
    return taken;
}
