#include "elementwise.h"

#include "harness.h"
#include "tensors.h"
#include "threads.h"

/* Below and above the size that threads share, and not multiples of anything. */
static const size_t COUNTS[] = {1, 31, 32769, 100003};

static void test_zero(void) {
    for (size_t threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        for (size_t i = 0; i < 4; i++) {
            size_t count = COUNTS[i];
            real *x = tensor_filled(count + 1, 3);
            vec_zero(x, count);
            for (size_t j = 0; j < count; j++) {
                if (!CHECK(x[j] == 0)) break;
            }
            CHECK(x[count] == 3);
            tensors_free();
        }
    }
    vec_zero(NULL, 0);
}

static void test_sum_squares(void) {
    for (size_t i = 0; i < 4; i++) {
        real *x = tensor_normal(COUNTS[i], 3);
        threads_set(1);
        double want = tensor_dot(x, x, COUNTS[i]), one = vec_sum_squares(x, COUNTS[i]);
        CHECK_CLOSE(one, want, 1e-13 * want * sqrt((double)COUNTS[i]));
        for (size_t threads = 2; threads <= 4; threads++) {
            threads_set(threads);
            CHECK(vec_sum_squares(x, COUNTS[i]) ==
                  one); /* the same bits: fixed blocks, added in order */
        }
        tensors_free();
    }
    CHECK(vec_sum_squares(NULL, 0) == 0);
    real large[] = {(real)1e30, (real)-1e30};
    CHECK_CLOSE(vec_sum_squares(large, 2), 2e60, 1e54); /* in double: float would overflow */
}

static void test_first_nonfinite(void) {
    const real bad[] = {(real)NAN, (real)INFINITY, (real)-INFINITY};
    for (size_t threads = 1; threads <= 3; threads++) {
        threads_set(threads);
        for (size_t i = 0; i < 4; i++) {
            size_t count = COUNTS[i], places[] = {0, count / 2, count - 1};
            real *x = tensor_normal(count, 1);
            CHECK_INT(vec_first_nonfinite(x, count), count);
            x[0] = (real)3e38; /* large, but a number; its neighbour's sum would not be */
            if (count > 1) x[1] = (real)3e38;
            CHECK_INT(vec_first_nonfinite(x, count), count);
            for (size_t p = 3; p-- > 0;) { /* later ones stay: the first is asked for */
                x[places[p]] = bad[p];
                CHECK_INT(vec_first_nonfinite(x, count), places[p]);
            }
            tensors_free();
        }
    }
    CHECK_INT(vec_first_nonfinite(NULL, 0), 0);
}

const Test tests_elementwise[] = {{"zero", test_zero, 0},
                                  {"sum_squares", test_sum_squares, 0},
                                  {"first_nonfinite", test_first_nonfinite, 0},
                                  {0}};
