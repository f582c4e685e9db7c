#include "harness.h"
#include "lr_schedule.h"

/* Values by hand: peak 8, warm-up over the first quarter. */
static void test_linear(void) {
    ScheduleConfig s = {.warmup = 0.25, .decay = SCHEDULE_LINEAR};
    CHECK_CLOSE(lr_schedule(&s, 8, 0), 0, 0);
    CHECK_CLOSE(lr_schedule(&s, 8, 0.125), 4, 1e-15);
    CHECK_CLOSE(lr_schedule(&s, 8, 0.25), 8, 1e-15);
    CHECK_CLOSE(lr_schedule(&s, 8, 0.625), 4, 1e-15);
    CHECK_CLOSE(lr_schedule(&s, 8, 1), 0, 1e-15);
}

static void test_cosine(void) {
    ScheduleConfig s = {.warmup = 0.25, .decay = SCHEDULE_COSINE};
    CHECK_CLOSE(lr_schedule(&s, 8, 0.125), 4, 1e-15);
    CHECK_CLOSE(lr_schedule(&s, 8, 0.5), 6,
                1e-14); /* a third of the way down: (1 + cos 60) / 2 = 3/4 */
    CHECK_CLOSE(lr_schedule(&s, 8, 0.625), 4, 1e-14);
    CHECK_CLOSE(lr_schedule(&s, 8, 1), 0, 1e-14);
}

static void test_constant_and_no_warmup(void) {
    ScheduleConfig constant = {.warmup = 0.5, .decay = SCHEDULE_CONSTANT};
    CHECK_CLOSE(lr_schedule(&constant, 3, 0.25), 1.5, 1e-15);
    CHECK_CLOSE(lr_schedule(&constant, 3, 0.99), 3, 0);
    ScheduleConfig cold = {.warmup = 0, .decay = SCHEDULE_LINEAR};
    CHECK_CLOSE(lr_schedule(&cold, 3, 0), 3, 0); /* no division by the empty warm-up */
    CHECK_CLOSE(lr_schedule(&cold, 3, 0.75), 0.75, 1e-15);
}

static void test_outside_is_clamped(void) {
    ScheduleConfig s = {.warmup = 0.1, .decay = SCHEDULE_LINEAR};
    CHECK_CLOSE(lr_schedule(&s, 5, -1), 0, 0);
    CHECK_CLOSE(lr_schedule(&s, 5, 1.5), 0, 1e-15);
}

/* Pieces of 8 for half of the length warm-up, then geometrically to 128: 32 in the middle of the
 * growth. */
static void test_length(void) {
    ScheduleConfig s = {.length_start = 8, .length_warmup = 0.5};
    CHECK_INT(length_schedule(&s, 128, 0), 8);
    CHECK_INT(length_schedule(&s, 128, 0.25), 8);
    CHECK_INT(length_schedule(&s, 128, 0.375 + 1e-9), 32);
    CHECK_INT(length_schedule(&s, 128, 0.5 - 1e-9), 127);
    CHECK_INT(length_schedule(&s, 128, 0.5), 128);
    CHECK_INT(length_schedule(&s, 128, 1), 128);
    size_t before = 8;
    for (double p = 0; p <= 1; p += 0.001) {
        size_t length = length_schedule(&s, 128, p);
        CHECK(length >= before && length <= 128);
        before = length;
    }
    s.length_start = 0;
    CHECK_INT(length_schedule(&s, 128, 0), 128);
    s.length_start = 128;
    CHECK_INT(length_schedule(&s, 128, 0), 128);
}

const Test tests_lr_schedule[] = {
    {"linear", test_linear, 0},
    {"cosine", test_cosine, 0},
    {"constant_and_no_warmup", test_constant_and_no_warmup, 0},
    {"outside_is_clamped", test_outside_is_clamped, 0},
    {"length", test_length, 0},
    {0},
};
