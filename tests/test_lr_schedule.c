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

const Test tests_lr_schedule[] = {
    {"linear", test_linear, 0},
    {"cosine", test_cosine, 0},
    {"constant_and_no_warmup", test_constant_and_no_warmup, 0},
    {"outside_is_clamped", test_outside_is_clamped, 0},
    {0},
};
