/* The checks can fail: each is given something wrong in a process of its own. */
#define _DEFAULT_SOURCE
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gradcheck.h"
#include "real.h"

/* What the harness would report of fn: 'o' passed, 'F' failed, 's' skipped, '?' anything else. */
static char verdict_of(void (*fn)(void)) {
    if (getenv("TEST_NO_FORK")) test_skip("needs a process for each check");
    fflush(NULL);
    pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout)) _exit(99);
        fn();
        test_end();
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status)) return '?';
    switch (WEXITSTATUS(status)) {
    case 0: return 'o';
    case 1: return 'F';
    case 77: return 's';
    default: return '?';
    }
}

static void pass_all(void) {
    double a[] = {1, -2, 3}, b[] = {1, -2, 3.00001};
    float c[] = {1, 2}, d[] = {1, 2};
    CHECK(true);
    CHECK_CLOSE(1, 1.1, 0.11);
    CHECK_CLOSE(INFINITY, INFINITY, 0);
    CHECK_INT(-3, -3);
    CHECK_STR("a", "a");
    CHECK_STR_CONTAINS("abc", "bc");
    CHECK_ARRAY_CLOSE(a, b, 3, 1e-5);
    CHECK_ARRAY_CLOSE(c, d, 2, 0);
    CHECK_ARRAY_CLOSE(c, d, 0, 0);
}

static void fail_check(void) {
    CHECK(1 > 2);
}
static void fail_require(void) {
    REQUIRE(1 > 2);
}
static void fail_message(void) {
    if (CHECK_MSG(1 > 2, "%d", 1)) return;
}
static void fail_close(void) {
    CHECK_CLOSE(1, 1.1, 0.09);
}
static void fail_close_nan(void) {
    CHECK_CLOSE(NAN, 1, INFINITY);
}
static void fail_close_nan_wanted(void) {
    CHECK_CLOSE(1, NAN, INFINITY);
}
static void fail_close_infinite(void) {
    CHECK_CLOSE(INFINITY, -INFINITY, 1);
}
static void fail_int(void) {
    CHECK_INT(1, 2);
}
static void fail_string(void) {
    CHECK_STR("a", "b");
}
static void fail_string_null(void) {
    CHECK_STR(NULL, NULL);
}
static void fail_part(void) {
    CHECK_STR_CONTAINS("abc", "ac");
}

static void fail_array(void) {
    double a[] = {1, -2, 3}, b[] = {1, -2.1, 3};
    CHECK_ARRAY_CLOSE(a, b, 3, 0.03);
}

static void fail_array_float(void) {
    float a[] = {1, 2}, b[] = {2, 1};
    CHECK_ARRAY_CLOSE(a, b, 2, 0.4);
}

static void fail_array_nan(void) {
    double a[] = {1, NAN, 3}, b[] = {1, 2, 3};
    CHECK_ARRAY_CLOSE(a, b, 3, 1e9);
}

static void fail_array_nan_wanted(void) {
    double a[] = {1, 2, 3}, b[] = {NAN, NAN, NAN};
    CHECK_ARRAY_CLOSE(a, b, 3, 1e9);
}

static void fail_then_skip(void) {
    CHECK(false);
    test_skip("the failure counts");
}

static void skip(void) {
    test_skip("nothing to do");
}
static void crash(void) {
    abort();
}

static void test_checks_fail(void) {
    static void (*const FAILING[])(void) = {
        fail_check,          fail_require,   fail_message,
        fail_close,          fail_close_nan, fail_close_nan_wanted,
        fail_close_infinite, fail_int,       fail_string,
        fail_string_null,    fail_part,      fail_array,
        fail_array_float,    fail_array_nan, fail_array_nan_wanted,
        fail_then_skip,
    };
    CHECK_INT(verdict_of(pass_all), 'o');
    for (size_t i = 0; i < sizeof FAILING / sizeof FAILING[0]; i++) {
        CHECK_MSG(verdict_of(FAILING[i]) == 'F', "check %zu of the list passes", i);
    }
    CHECK_INT(verdict_of(skip), 's');
    CHECK_INT(verdict_of(crash), '?');
}

/* sum of exp(x) + x^4 has gradient exp(x) + 4 x^3. */
typedef struct Case {
    real x[5];
    double offset;
} Case;

static double loss(void *ctx) {
    const Case *c = ctx;
    double sum = c->offset;
    for (size_t i = 0; i < 5; i++) sum += exp((double)c->x[i]) + pow((double)c->x[i], 4);
    return sum;
}

static void set_up(Case *c, real *grad) {
    *c = (Case){{(real)-1.5, 0, (real)0.1, 1, (real)2.5}, 0};
    for (size_t i = 0; i < 5; i++)
        grad[i] = (real)(exp((double)c->x[i]) + 4 * pow((double)c->x[i], 3));
}

static void grad_right(void) {
    Case c;
    real grad[5];
    set_up(&c, grad);
    GradCheck check = {.loss = loss, .ctx = &c};
    /* far below what the checks of the model ask for */
    CHECK(grad_close(&check, "x", c.x, grad, 5, 1e-10));
    CHECK(grad_worst() <= 1e-10);
    Case untouched;
    set_up(&untouched, grad);
    CHECK(!memcmp(c.x, untouched.x, sizeof c.x));
    check.samples = 3;
    CHECK(grad_close(&check, "x", c.x, grad, 5, 1e-10));
}

static void grad_wrong(void) {
    Case c;
    real grad[5];
    set_up(&c, grad);
    grad[1] += (real)1e-5; /* a millionth part of the largest, at the smallest */
    GradCheck check = {.loss = loss, .ctx = &c};
    CHECK(grad_close(&check, "x", c.x, grad, 5, 1e-7));
}

static void grad_nan(void) {
    Case c;
    real grad[5];
    set_up(&c, grad);
    grad[4] = NAN;
    GradCheck check = {.loss = loss, .ctx = &c};
    CHECK(grad_close(&check, "x", c.x, grad, 5, 1e-7));
}

static void grad_nan_loss(void) {
    Case c;
    real grad[5];
    set_up(&c, grad);
    c.offset = NAN;
    GradCheck check = {.loss = loss, .ctx = &c};
    CHECK(grad_close(&check, "x", c.x, grad, 5, 1e-7));
}

static void grad_all_zero(void) {
    Case c;
    real grad[5] = {0};
    set_up(&c, (real[5]){0});
    GradCheck check = {.loss = loss, .ctx = &c};
    CHECK(grad_close(&check, "x", c.x, grad, 5, 1e-7));
}

static void test_gradient_check_fails(void) {
    CHECK_INT(verdict_of(grad_right), 'o');
    CHECK_INT(verdict_of(grad_wrong), 'F');
    CHECK_INT(verdict_of(grad_nan), 'F');
    CHECK_INT(verdict_of(grad_nan_loss), 'F');
    CHECK_INT(verdict_of(grad_all_zero), 'F');
}

static void test_temp_dir_is_fresh(void) {
    const char *dir = test_temp_dir();
    CHECK(dir == test_temp_dir());
    CHECK(rmdir(dir) == 0); /* it was empty */
    CHECK_STR_CONTAINS(test_temp_path("x"), dir);
}

const Test tests_harness[] = {
    {"checks_fail", test_checks_fail, 0},
    {"gradient_check_fails", test_gradient_check_fails, TEST_DOUBLE},
    {"temp_dir_is_fresh", test_temp_dir_is_fresh, 0},
    {0},
};
