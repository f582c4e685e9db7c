#include "rng.h"

#include <stdlib.h>

#include "harness.h"

/* A sequence of 64-bit words to be judged; words of 32-bit generators are two draws. */
typedef uint64_t (*Sequence)(uint64_t i);

enum { WORDS = 1 << 16 };

/* With a fixed seed these bounds either hold or not; 5 standard deviations would be passed by all
 * but one of a million truly random sequences, and several hundred figures are looked at. */
static const double SIGMAS = 5;

static uint64_t by_index(uint64_t i) {
    return rng_u64(rng_key(test_seed(), RNG_TEST, 1, 2), i);
}
static uint64_t by_index_raw_key(uint64_t i) {
    return rng_u64(0, i);
}
static uint64_t by_index_stride(uint64_t i) {
    return rng_u64(1, i * 768);
}
static uint64_t by_index_high(uint64_t i) {
    return rng_u64(1, i << 40);
}
static uint64_t by_key(uint64_t i) {
    return rng_u64(i, 0);
}
static uint64_t by_key_high(uint64_t i) {
    return rng_u64(i << 44, 3);
}
static uint64_t by_seed(uint64_t i) {
    return rng_key(i, RNG_TEST, 0, 0);
}
static uint64_t by_a(uint64_t i) {
    return rng_key(1, RNG_TEST, i, 0);
}
static uint64_t by_b(uint64_t i) {
    return rng_key(1, RNG_TEST, 0, i);
}
static uint64_t by_a_and_b(uint64_t i) {
    return rng_key(1, RNG_TEST, i % 256, i / 256);
}
static uint64_t neighbour_keys(uint64_t i) {
    return rng_u64(8, i) ^ rng_u64(9, i);
}
static uint64_t neighbour_indices(uint64_t i) {
    return rng_u64(i, 8) ^ rng_u64(i, 9);
}
static uint64_t key_against_index(uint64_t i) {
    return rng_u64(i, 5) ^ rng_u64(5, i);
}

static uint64_t pair_fast(uint64_t key, uint64_t i, uint64_t step) {
    uint64_t high = rng_u32_fast(key, (uint32_t)(2 * i * step));
    return high << 32 | rng_u32_fast(key, (uint32_t)((2 * i + 1) * step));
}

static uint64_t fast_by_index(uint64_t i) {
    return pair_fast(rng_key(test_seed(), RNG_DROPOUT, 1, 2), i, 1);
}
static uint64_t fast_raw_key(uint64_t i) {
    return pair_fast(0, i, 1);
}
static uint64_t fast_stride(uint64_t i) {
    return pair_fast(rng_key(3, RNG_DROPOUT, 1, 2), i, 768);
}
static uint64_t fast_stride_pow2(uint64_t i) {
    return pair_fast(rng_key(4, RNG_DROPOUT, 1, 2), i, 1024);
}
static uint64_t fast_by_key(uint64_t i) {
    return (uint64_t)rng_u32_fast(rng_key(1, RNG_DROPOUT, i, 0), 0) << 32 |
           rng_u32_fast(rng_key(1, RNG_DROPOUT, i, 1), 0);
}
static uint64_t fast_neighbour_keys(uint64_t i) {
    return pair_fast(rng_key(1, RNG_DROPOUT, 7, 0), i, 1) ^
           pair_fast(rng_key(1, RNG_DROPOUT, 8, 0), i, 1);
}
static uint64_t fast_low_key(uint64_t i) {
    return pair_fast(1000, i, 1) ^ pair_fast(1001, i, 1);
}
static uint64_t fast_high_key(uint64_t i) {
    return pair_fast(1, i, 1) ^ pair_fast(1 + ((uint64_t)1 << 32), i, 1);
}
static uint64_t fast_neighbour_indices(uint64_t i) {
    return pair_fast(rng_key(5, RNG_DROPOUT, 7, 0), i, 1) ^
           pair_fast(rng_key(5, RNG_DROPOUT, 7, 0), i + 1, 1);
}

static const struct {
    const char *name;
    Sequence at;
} SEQUENCES[] = {
    {"index", by_index},
    {"index, key 0", by_index_raw_key},
    {"index by 768", by_index_stride},
    {"high index", by_index_high},
    {"key", by_key},
    {"high key", by_key_high},
    {"seed", by_seed},
    {"a", by_a},
    {"b", by_b},
    {"a and b", by_a_and_b},
    {"neighbour keys", neighbour_keys},
    {"neighbour indices", neighbour_indices},
    {"key against index", key_against_index},
    {"fast index", fast_by_index},
    {"fast index, key 0", fast_raw_key},
    {"fast index by 768", fast_stride},
    {"fast index by 1024", fast_stride_pow2},
    {"fast key", fast_by_key},
    {"fast neighbour keys", fast_neighbour_keys},
    {"fast keys, low word apart by 1", fast_low_key},
    {"fast keys, high word apart by 1", fast_high_key},
    {"fast neighbour indices", fast_neighbour_indices},
};
enum { SEQUENCE_COUNT = sizeof SEQUENCES / sizeof SEQUENCES[0] };

/* How far a count of successes of probability 1/2 is from its mean, in standard deviations. */
static double half_sigmas(size_t ones, size_t trials) {
    return fabs((double)ones - 0.5 * (double)trials) / sqrt(0.25 * (double)trials);
}

static void test_bits(void) {
    for (size_t s = 0; s < SEQUENCE_COUNT; s++) {
        for (unsigned bit = 0; bit < 64; bit++) {
            size_t ones = 0;
            for (uint64_t i = 0; i < WORDS; i++) ones += SEQUENCES[s].at(i) >> bit & 1;
            double sigmas = half_sigmas(ones, WORDS);
            CHECK_MSG(sigmas <= SIGMAS, "%s: bit %u is %.1f sigmas off", SEQUENCES[s].name, bit,
                      sigmas);
        }
    }
}

/* Chi-square of `cells` equally likely counts, as a normal deviate: too even is as wrong as too
 * uneven. */
static double chi_square_sigmas(const size_t *counts, size_t cells, double expected) {
    double sum = 0;
    for (size_t c = 0; c < cells; c++)
        sum += ((double)counts[c] - expected) * ((double)counts[c] - expected) / expected;
    double freedom = (double)cells - 1;
    return fabs(sum - freedom) / sqrt(2 * freedom);
}

static void test_bytes(void) {
    for (size_t s = 0; s < SEQUENCE_COUNT; s++) {
        for (unsigned byte = 0; byte < 8; byte++) {
            size_t counts[256] = {0};
            for (uint64_t i = 0; i < WORDS; i++) counts[SEQUENCES[s].at(i) >> 8 * byte & 255]++;
            double sigmas = chi_square_sigmas(counts, 256, WORDS / 256.0);
            CHECK_MSG(sigmas <= SIGMAS, "%s: byte %u, chi-square is %.1f sigmas off",
                      SEQUENCES[s].name, byte, sigmas);
        }
    }
}

/* Pairs of nibbles of neighbouring words: a chi-square over 256 cells that sees dependence in each
 * position. */
static void test_neighbour_pairs(void) {
    for (size_t s = 0; s < SEQUENCE_COUNT; s++) {
        for (unsigned nibble = 0; nibble < 16; nibble++) {
            size_t counts[256] = {0};
            uint64_t before = SEQUENCES[s].at(0);
            for (uint64_t i = 1; i <= WORDS; i++) {
                uint64_t now = SEQUENCES[s].at(i);
                counts[(before >> 4 * nibble & 15) << 4 | (now >> 4 * nibble & 15)]++;
                before = now;
            }
            double sigmas = chi_square_sigmas(counts, 256, WORDS / 256.0);
            CHECK_MSG(sigmas <= SIGMAS,
                      "%s: nibble %u of neighbours, chi-square is %.1f sigmas off",
                      SEQUENCES[s].name, nibble, sigmas);
        }
    }
}

/* Correlation of the halves of neighbouring words, taken as numbers in [0, 1). */
static void test_serial_correlation(void) {
    for (size_t s = 0; s < SEQUENCE_COUNT; s++) {
        for (unsigned half = 0; half < 2; half++) {
            for (uint64_t lag = 1; lag <= 8; lag++) {
                double sum = 0;
                for (uint64_t i = 0; i < WORDS; i++) {
                    double x = (double)(uint32_t)(SEQUENCES[s].at(i) >> 32 * half) * 0x1p-32 - 0.5;
                    double y =
                        (double)(uint32_t)(SEQUENCES[s].at(i + lag) >> 32 * half) * 0x1p-32 - 0.5;
                    sum += x * y;
                }
                /* the variance of x is 1/12 */
                double sigmas = fabs(12 * sum) / sqrt((double)WORDS);
                CHECK_MSG(sigmas <= SIGMAS, "%s: half %u, correlation at lag %u is %.1f sigmas",
                          SEQUENCES[s].name, half, (unsigned)lag, sigmas);
            }
        }
    }
}

/* Every bit of one word against every bit of the next. */
static void test_bit_pairs(void) {
    for (size_t s = 0; s < SEQUENCE_COUNT; s++) {
        static size_t equal[64][64];
        memset(equal, 0, sizeof equal);
        enum { N = WORDS / 4 };
        for (uint64_t i = 0; i < N; i++) {
            uint64_t x = SEQUENCES[s].at(i), y = SEQUENCES[s].at(i + 1);
            for (unsigned a = 0; a < 64; a++) {
                uint64_t same = x >> a & 1 ? y : ~y;
                for (unsigned b = 0; b < 64; b++) equal[a][b] += same >> b & 1;
            }
        }
        double worst = 0;
        for (unsigned a = 0; a < 64; a++) {
            for (unsigned b = 0; b < 64; b++) worst = fmax(worst, half_sigmas(equal[a][b], N));
        }
        /* 4096 pairs a sequence: 5 standard deviations would fail one random sequence in 400 */
        CHECK_MSG(worst <= SIGMAS + 1, "%s: two bits of neighbours agree %.1f sigmas off",
                  SEQUENCES[s].name, worst);
    }
}

/* Turning one bit of the index or the key over turns each output bit over half of the time. */
static void test_avalanche(void) {
    enum { N = 4096 };
    double worst = 0;
    for (unsigned in = 0; in < 128; in++) {
        size_t turned[64] = {0};
        for (uint64_t i = 0; i < N; i++) {
            uint64_t key = rng_key(i, RNG_TEST, in, 0), index = i * 977;
            uint64_t change = UINT64_C(1) << in % 64;
            uint64_t x = rng_u64(key, index) ^
                         (in < 64 ? rng_u64(key ^ change, index) : rng_u64(key, index ^ change));
            for (unsigned out = 0; out < 64; out++) turned[out] += x >> out & 1;
        }
        for (unsigned out = 0; out < 64; out++) worst = fmax(worst, half_sigmas(turned[out], N));
    }
    CHECK_MSG(worst <= SIGMAS + 1,
              "an input bit moves an output bit %.1f sigmas from half of the time", worst);
}

/* Dropout keeps an element when its draw is below a threshold: the kept share, and that of
 * neighbours kept together. */
static void test_fast_thresholds(void) {
    static const double RATES[] = {0.01, 0.1, 0.5, 0.9};
    enum { N = 1 << 20 };
    for (size_t r = 0; r < 4; r++) {
        uint32_t threshold = (uint32_t)(RATES[r] * 0x1p32);
        for (uint64_t k = 0; k < 4; k++) {
            uint64_t key = rng_key(test_seed(), RNG_DROPOUT, k, r);
            size_t hits = 0, both = 0;
            bool before = false;
            for (uint32_t i = 0; i < N; i++) {
                bool hit = rng_u32_fast(key, i) < threshold;
                hits += hit;
                both += hit && before;
                before = hit;
            }
            double p = RATES[r], pp = p * p;
            CHECK_CLOSE((double)hits, p * N, SIGMAS * sqrt(p * (1 - p) * N));
            /* neighbouring pairs overlap, which at most triples the variance */
            CHECK_CLOSE((double)both, pp * N, SIGMAS * sqrt(3 * pp * (1 - pp) * N));
        }
    }
}

static int compare_u64(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Keys of different purpose and counters never meet: 2^18 of them have no collision (chance
 * 2e-9). */
static void test_keys_are_distinct(void) {
    enum { A = 128, B = 128, COUNT = A * B * 4 * 4 };
    uint64_t *keys = malloc(COUNT * sizeof *keys);
    REQUIRE(keys != NULL);
    size_t n = 0;
    for (uint64_t seed = 0; seed < 4; seed++) {
        for (int purpose = RNG_INIT; purpose < RNG_INIT + 4; purpose++) {
            for (uint64_t a = 0; a < A; a++) {
                for (uint64_t b = 0; b < B; b++)
                    keys[n++] = rng_key(seed, (RngPurpose)purpose, a, b);
            }
        }
    }
    qsort(keys, n, sizeof *keys, compare_u64);
    for (size_t i = 1; i < n; i++) CHECK(keys[i - 1] != keys[i]);
    free(keys);
}

static void test_uniform(void) {
    uint64_t key = rng_key(test_seed(), RNG_TEST, 3, 0);
    enum { N = 1 << 18 };
    double sum = 0, squares = 0;
    for (uint64_t i = 0; i < N; i++) {
        double u = rng_uniform(key, i);
        REQUIRE(u >= 0 && u < 1);
        sum += u;
        squares += u * u;
    }
    CHECK_CLOSE(sum / N, 0.5, SIGMAS / sqrt(12.0 * N));
    CHECK_CLOSE(squares / N, 1.0 / 3, SIGMAS * sqrt(4.0 / 45 / N)); /* variance of u^2: 1/5 - 1/9 */
}

static void test_below(void) {
    static const uint64_t BOUNDS[] = {1, 2, 3, 7, 10, 100, 255, 256};
    enum { N = 1 << 18 };
    for (size_t b = 0; b < sizeof BOUNDS / sizeof BOUNDS[0]; b++) {
        size_t counts[256] = {0};
        for (uint64_t i = 0; i < N; i++) {
            uint64_t x = rng_below(b, i, BOUNDS[b]);
            REQUIRE(x < BOUNDS[b]);
            counts[x]++;
        }
        if (BOUNDS[b] == 1) continue;
        double sigmas = chi_square_sigmas(counts, BOUNDS[b], N / (double)BOUNDS[b]);
        CHECK_MSG(sigmas <= SIGMAS, "bound %u: chi-square %.1f sigmas off", (unsigned)BOUNDS[b],
                  sigmas);
    }
    uint64_t large = UINT64_C(3) << 62, low_half = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t x = rng_below(1, i, large);
        REQUIRE(x < large);
        low_half += x < large / 2;
    }
    CHECK(half_sigmas(low_half, N) <= SIGMAS); /* a modulo would give 2/3 here */
}

static void test_normal(void) {
    enum { N = 1 << 19 };
    double key_sum[5] = {0}, tail = 0, neighbours = 0, before = 0;
    uint64_t key = rng_key(test_seed(), RNG_INIT, 0, 0);
    for (uint64_t i = 0; i < N; i++) {
        double z = rng_normal(key, i), power = 1;
        for (int m = 0; m < 5; m++, power *= z) key_sum[m] += power;
        tail += fabs(z) > 3;
        neighbours += z * before;
        before = z;
    }
    /* moments of the normal distribution with the standard deviations of their estimates */
    CHECK_CLOSE(key_sum[1] / N, 0, SIGMAS * sqrt(1.0 / N));
    CHECK_CLOSE(key_sum[2] / N, 1, SIGMAS * sqrt(2.0 / N));
    CHECK_CLOSE(key_sum[3] / N, 0, SIGMAS * sqrt(15.0 / N));
    CHECK_CLOSE(key_sum[4] / N, 3, SIGMAS * sqrt(96.0 / N));
    CHECK_CLOSE(tail / N, 0.0026998, SIGMAS * sqrt(0.0027 / N));
    CHECK_CLOSE(neighbours / N, 0, SIGMAS * sqrt(1.0 / N));
}

static void test_permute_is_a_bijection(void) {
    static unsigned char seen[70000];
    for (uint64_t count = 1; count <= 1000; count++) {
        memset(seen, 0, count);
        for (uint64_t i = 0; i < count; i++) {
            uint64_t at = rng_permute(count * 31, i, count);
            REQUIRE(at < count);
            REQUIRE(!seen[at]);
            seen[at] = 1;
        }
    }
    static const uint64_t LARGE[] = {65535, 65536, 65537, 69999};
    for (size_t c = 0; c < 4; c++) {
        memset(seen, 0, sizeof seen);
        for (uint64_t i = 0; i < LARGE[c]; i++) {
            uint64_t at = rng_permute(5, i, LARGE[c]);
            REQUIRE(at < LARGE[c]);
            REQUIRE(!seen[at]);
            seen[at] = 1;
        }
    }
    CHECK(rng_permute(1, 0, UINT64_MAX) < UINT64_MAX);
    CHECK(rng_permute(1, UINT64_MAX - 1, UINT64_MAX) < UINT64_MAX);
}

/* Over many keys every element takes every place equally often, and the six orders of three are
 * equally likely. */
static void test_permute_is_uniform(void) {
    enum { KEYS = 30000, COUNT = 13 };
    size_t places[COUNT][COUNT] = {{0}}, orders[9] = {0};
    for (uint64_t k = 0; k < KEYS; k++) {
        uint64_t key = rng_key(test_seed(), RNG_SHUFFLE, k, 0);
        for (uint64_t i = 0; i < COUNT; i++) places[i][rng_permute(key, i, COUNT)]++;
        orders[rng_permute(key, 0, 3) * 3 + rng_permute(key, 1, 3)]++;
    }
    for (size_t i = 0; i < COUNT; i++)
        CHECK(chi_square_sigmas(places[i], COUNT, (double)KEYS / COUNT) <= SIGMAS);
    enum { EIGHT = 8 * 8 * 8 }; /* where three of eight go: 336 equally likely outcomes */
    size_t triples[EIGHT] = {0}, outcomes[EIGHT], count = 0;
    for (uint64_t k = 0; k < KEYS; k++) {
        uint64_t key = rng_key(test_seed(), RNG_SHUFFLE, k, 2), at = 0;
        for (uint64_t i = 0; i < 3; i++) at = at * 8 + rng_permute(key, i, 8);
        triples[at]++;
    }
    for (size_t t = 0; t < EIGHT; t++) {
        size_t a = t / 64, b = t / 8 % 8, c = t % 8;
        if (a != b && b != c && c != a) outcomes[count++] = triples[t];
    }
    CHECK_INT(count, 336);
    CHECK(chi_square_sigmas(outcomes, count, KEYS / 336.0) <= SIGMAS);
    size_t six[6] = {orders[1], orders[2], orders[3], orders[5], orders[6], orders[7]};
    CHECK(chi_square_sigmas(six, 6, KEYS / 6.0) <= SIGMAS);
}

/* In a long permutation neighbours land far apart: the mean distance of two random places is count
 * / 3. */
static void test_permute_scatters_neighbours(void) {
    static const uint64_t COUNTS[] = {100, 1000, 4096, 100003};
    for (size_t c = 0; c < 4; c++) {
        double n = (double)COUNTS[c], sum = 0, fixed = 0;
        uint64_t key = rng_key(test_seed(), RNG_SHUFFLE, c, 1),
                 before = rng_permute(key, 0, COUNTS[c]);
        for (uint64_t i = 1; i < COUNTS[c]; i++) {
            uint64_t at = rng_permute(key, i, COUNTS[c]);
            sum += at > before ? (double)(at - before) : (double)(before - at);
            fixed += at == i;
            before = at;
        }
        CHECK_CLOSE(sum / (n - 1), n / 3, SIGMAS * n * sqrt(1.0 / 18 * 2 / n));
        CHECK(fixed <= 8); /* their number is Poisson with mean 1: above 8 once in a million */
    }
}

/* Checkpoints continue the draws of the program that wrote them: these values are part of the
 * format. */
static void test_values_never_change(void) {
    CHECK(rng_key(1, RNG_MASK, 2, 3) == UINT64_C(0x8c0520d3efad1aa5));
    CHECK(rng_u64(1, 2) == UINT64_C(0x53333861a8874c22));
    CHECK(rng_u32_fast(UINT64_C(0x123456789abcdef0), 7) == 0x0b2336c8u);
    CHECK(rng_below(1, 2, 1000) == 325);
    CHECK(rng_permute(1, 2, 1000) == 179);
    /* log and cos may differ in the last digit between systems */
    CHECK_CLOSE(rng_normal(1, 2), 0.573384651970260, 1e-12);
}

const Test tests_rng[] = {
    {"bits", test_bits, 0},
    {"bytes", test_bytes, 0},
    {"neighbour_pairs", test_neighbour_pairs, 0},
    {"serial_correlation", test_serial_correlation, 0},
    {"bit_pairs", test_bit_pairs, 0},
    {"avalanche", test_avalanche, 0},
    {"fast_thresholds", test_fast_thresholds, 0},
    {"keys_are_distinct", test_keys_are_distinct, 0},
    {"uniform", test_uniform, 0},
    {"below", test_below, 0},
    {"normal", test_normal, 0},
    {"permute_is_a_bijection", test_permute_is_a_bijection, 0},
    {"permute_is_uniform", test_permute_is_uniform, 0},
    {"permute_scatters_neighbours", test_permute_scatters_neighbours, 0},
    {"values_never_change", test_values_never_change, 0},
    {0},
};
