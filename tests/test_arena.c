#include "arena.h"

#include <stdlib.h>

#include "harness.h"

/* Three tensors of sizes that are no multiples of anything. */
static void layout(Arena *arena, float **a, double **b, char **c) {
    *a = arena_take(arena, 7, sizeof **a);
    *b = arena_take(arena, 129, sizeof **b);
    *c = arena_take(arena, 1, sizeof **c);
}

static void test_two_passes_agree(void) {
    Arena counting = {0}, arena = {0};
    Err err = {0};
    float *a;
    double *b;
    char *c;
    layout(&counting, &a, &b, &c);
    CHECK(!a && !b && !c && !counting.overflow);
    REQUIRE(arena_create(&arena, counting.used, &err));
    layout(&arena, &a, &b, &c);
    CHECK(!arena.overflow);
    CHECK_INT(arena.used, counting.used);
    CHECK_INT(arena.size, counting.used);
    CHECK((uintptr_t)a % ARENA_ALIGN == 0 && (uintptr_t)b % ARENA_ALIGN == 0 &&
          (uintptr_t)c % ARENA_ALIGN == 0);
    CHECK((char *)b >= (char *)(a + 7) && c >= (char *)(b + 129));
    CHECK(c + 1 <= (char *)arena.base + arena.size);
    for (size_t i = 0; i < 7; i++) CHECK(a[i] == 0);
    for (size_t i = 0; i < 129; i++) CHECK(b[i] == 0);
    memset(a, 1, 7 * sizeof *a);
    memset(b, 2, 129 * sizeof *b);
    *c = 3;
    CHECK(((unsigned char *)a)[27] == 1 && ((unsigned char *)b)[0] == 2);

    CHECK(arena_take(&arena, 1, 1) == NULL); /* sealed: nothing is left */
    CHECK(arena.overflow);
    arena_destroy(&arena);
    CHECK(arena.base == NULL);
    arena_destroy(&arena);
}

static void test_overflow_is_noticed(void) {
    Arena a = {0};
    CHECK(arena_take(&a, SIZE_MAX / 2 + 1, 2) == NULL && a.overflow); /* the product wraps to 0 */
    Arena b = {0};
    /* rounding up to 64 does not fit */
    CHECK(arena_take(&b, SIZE_MAX - 3, 1) == NULL && b.overflow);
    Arena c = {0};
    arena_take(&c, SIZE_MAX / 2, 1);
    CHECK(!c.overflow);
    arena_take(&c, SIZE_MAX / 2, 1);
    arena_take(&c, SIZE_MAX / 2, 1);
    CHECK(c.overflow);
}

static void test_size_mul(void) {
    size_t out = 1;
    CHECK(size_mul(3, 5, &out) && out == 15);
    CHECK(size_mul(0, SIZE_MAX, &out) && out == 0);
    CHECK(size_mul(SIZE_MAX, 1, &out) && out == SIZE_MAX);
    CHECK(!size_mul(SIZE_MAX / 2 + 1, 2, &out));
}

static void test_absurd_size_fails(void) {
#ifdef __SANITIZE_ADDRESS__
    test_skip("the address sanitizer ends the program at absurd allocations");
#endif
    Arena arena = {0};
    Err err = {0};
    CHECK(!arena_create(&arena, SIZE_MAX / 4, &err));
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_STR_CONTAINS(err.msg, "out of memory");
    CHECK(!arena_create(&arena, SIZE_MAX, &err));
    CHECK(arena.base == NULL);
}

static void test_large_and_empty_blocks(void) {
    static const size_t SIZES[] = {
        0, 1, 4095, 4097, (2u << 20) - 1, 2u << 20, (2u << 20) + 1, (6u << 20) + 4097};
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
        Arena arena = {0};
        Err err = {0};
        size_t bytes = SIZES[i] + 256; /* room for the gap of sanitizer builds */
        REQUIRE(arena_create(&arena, bytes, &err));
        unsigned char *p = arena_take(&arena, SIZES[i], 1);
        REQUIRE(p != NULL);
        if (SIZES[i]) CHECK(p[0] == 0 && p[SIZES[i] - 1] == 0);
        memset(p, 0xAB, SIZES[i]);
        arena_destroy(&arena);
    }
    Arena empty = {0};
    Err err = {0};
    CHECK(arena_create(&empty, 0, &err));
    CHECK(empty.base != NULL); /* else it would count */
    arena_destroy(&empty);
}

const Test tests_arena[] = {
    {"two_passes_agree", test_two_passes_agree, 0},
    {"overflow_is_noticed", test_overflow_is_noticed, 0},
    {"size_mul", test_size_mul, 0},
    {"absurd_size_fails", test_absurd_size_fails, 0},
    {"large_and_empty_blocks", test_large_and_empty_blocks, 0},
    {0},
};
