/* What the compiler's flags must leave alone. */
#include <math.h>

#include "harness.h"
#include "real.h"

/* Read at run time: a constant would be folded by the compiler, whatever the flags do to the
 * program. */
static volatile real zero = 0, one = 1, huge = (real)1e30;

static void test_nan_and_infinity_are_seen(void) {
    real nan = zero / zero, infinity = one / zero;
    CHECK(isnan(nan) && !isnan(infinity) && !isnan(one));
    CHECK(!isfinite(nan) && !isfinite(infinity) && isfinite(huge));
    CHECK(isinf(infinity) && isinf(-infinity));
    CHECK(nan != nan);
    CHECK(!(nan <= one) && !(nan >= one));
    CHECK(isnan(infinity - infinity));
}

/* (1 + e) - 1 is e rounded: a compiler free to reorder would return e itself. */
static void test_sums_keep_their_order(void) {
    real tiny = (real)REAL_EPSILON * one / 4;
    CHECK((one + tiny) - one == 0);
    real large = huge, sum = large + one;
    CHECK(sum - large == 0);
    CHECK(signbit(-zero) && !signbit(zero));
}

const Test tests_build[] = {
    {"nan_and_infinity_are_seen", test_nan_and_infinity_are_seen, 0},
    {"sums_keep_their_order", test_sums_keep_their_order, 0},
    {0},
};
