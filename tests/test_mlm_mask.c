#include "mlm_mask.h"

#include <math.h>
#include <stdlib.h>

#include "harness.h"
#include "rng.h"
#include "tokenizer.h"

enum { T = 64, VOCAB = 50 };

/* `<s>`, words, and a special in every eighth place. */
static void fill(uint32_t *ids, size_t length) {
    for (size_t t = 0; t < length; t++)
        ids[t] = t % 8 == 3 ? TOKEN_EOS : (uint32_t)(TOKEN_SPECIALS + t % (VOCAB - TOKEN_SPECIALS));
    ids[0] = TOKEN_BOS;
}

/* A count of n trials of probability p is within 3 standard deviations (what is left is 0.3%, and
 * the seed is fixed). */
static bool binomial(double found, double n, double p) {
    return fabs(found - n * p) <= 3 * sqrt(n * p * (1 - p));
}

static void test_statistics(void) {
    enum { SAMPLES = 100000 };
    const double rate = 0.15;
    uint32_t original[T], ids[T], rows[T], labels[T];
    double chosen = 0, masked = 0, kept = 0, replaced = 0, per_place[T] = {0},
           replacements[VOCAB] = {0};
    fill(original, T);
    size_t maskable = mlm_maskable(original, T);
    CHECK_INT(maskable, T - 1 - 8);
    for (uint64_t s = 0; s < SAMPLES; s++) {
        uint64_t key = rng_key(test_seed(), RNG_MASK, 0, s);
        memcpy(ids, original, sizeof ids);
        size_t count = mlm_mask(ids, rows, labels, T, VOCAB, rate, key);
        REQUIRE(count == mlm_mask_count(key, maskable, rate));
        REQUIRE(count == 8 || count == 9); /* floor(0.15 * 55 + u) = floor(8.25 + u) */
        for (size_t i = 0; i < count; i++) {
            REQUIRE(rows[i] < T && (i == 0 || rows[i] > rows[i - 1]));
            REQUIRE(labels[i] == original[rows[i]] && labels[i] >= TOKEN_SPECIALS);
            uint32_t now = ids[rows[i]];
            per_place[rows[i]]++;
            if (now == TOKEN_MASK)
                masked++;
            else if (now == labels[i])
                kept++;
            else {
                REQUIRE(now >= TOKEN_SPECIALS && now < VOCAB);
                replaced++;
                replacements[now]++;
            }
            ids[rows[i]] = labels[i];
        }
        REQUIRE(!memcmp(ids, original, sizeof ids)); /* nothing else was touched */
        chosen += (double)count;
    }
    /* the count is 8 or 9, so its mean is far better known than that of independent draws */
    CHECK(binomial(chosen - 8.0 * SAMPLES, SAMPLES, rate * 55 - 8));
    CHECK(binomial(masked, chosen, 0.8));
    /* one random id in VOCAB - 5 is the original one */
    double same = 1.0 / (VOCAB - TOKEN_SPECIALS);
    CHECK(binomial(replaced, chosen, 0.1 * (1 - same)));
    CHECK(binomial(kept, chosen, 0.1 + 0.1 * same));
    size_t off = 0, off_ids = 0;
    for (size_t t = 0; t < T; t++) {
        if (original[t] < TOKEN_SPECIALS)
            CHECK(per_place[t] == 0);
        else
            off += !binomial(per_place[t], SAMPLES, rate);
    }
    for (size_t v = TOKEN_SPECIALS; v < VOCAB; v++)
        off_ids += !binomial(replacements[v], replaced, same);
    /* 0.3% of 55 and 45 checks: two of each beyond 3 sigma would be one in a hundred runs */
    CHECK_MSG(off <= 1, "%zu places beyond 3 sigma", off);
    CHECK_MSG(off_ids <= 1, "%zu replacements beyond 3 sigma", off_ids);
}

/* Every pair of places is chosen together as often as any other. */
static void test_pairs(void) {
    enum { N = 6, SAMPLES = 60000 };
    double together[N][N] = {{0}};
    for (uint64_t s = 0; s < SAMPLES; s++) {
        uint32_t ids[N] = {5, 6, 7, 8, 9, 10}, rows[N], labels[N];
        REQUIRE(mlm_mask(ids, rows, labels, N, VOCAB, 1.0 / 3,
                         rng_key(test_seed(), RNG_TEST, 4, s)) == 2);
        together[rows[0]][rows[1]]++;
    }
    for (size_t a = 0; a < N; a++) {
        for (size_t b = a + 1; b < N; b++) CHECK(binomial(together[a][b], SAMPLES, 1.0 / 15));
    }
}

static void test_pure(void) {
    uint32_t a[T], b[T], rows_a[T], rows_b[T], labels_a[T], labels_b[T];
    size_t differ = 0;
    for (uint64_t s = 0; s < 100; s++) {
        uint64_t key = rng_key(1, RNG_MASK, 0, s);
        fill(a, T);
        fill(b, T);
        size_t n = mlm_mask(a, rows_a, labels_a, T, VOCAB, 0.15, key);
        REQUIRE(n == mlm_mask(b, rows_b, labels_b, T, VOCAB, 0.15, key));
        CHECK(!memcmp(a, b, sizeof a) && !memcmp(rows_a, rows_b, n * sizeof *rows_a));
        fill(b, T);
        mlm_mask(b, rows_b, labels_b, T, VOCAB, 0.15,
                 rng_key(1, RNG_MASK, 1, s)); /* the next epoch */
        differ += memcmp(a, b, sizeof a) != 0;
    }
    CHECK(differ >= 99);
}

static void test_edges(void) {
    uint32_t rows[T], labels[T], ids[T];
    uint64_t key = rng_key(test_seed(), RNG_TEST, 5, 0);
    CHECK_INT(mlm_mask(ids, rows, labels, 0, VOCAB, 0.15, key), 0);
    for (uint64_t s = 0; s < 100; s++) { /* nothing but specials: nothing to predict */
        for (size_t t = 0; t < T; t++) ids[t] = (uint32_t)(t % TOKEN_SPECIALS);
        CHECK_INT(mlm_mask(ids, rows, labels, T, VOCAB, 0.9, key + s), 0);
        for (size_t t = 0; t < T; t++) CHECK(ids[t] == t % TOKEN_SPECIALS);
    }
    fill(ids, T);
    CHECK_INT(mlm_mask(ids, rows, labels, T, VOCAB, 0, key), 0);
    CHECK_INT(mlm_mask(ids, rows, labels, T, VOCAB, 1, key), mlm_maskable(ids, T));
    /* a short sequence is predicted in its share of the draws, so that short lines count too */
    double chosen = 0;
    for (uint64_t s = 0; s < 20000; s++) {
        uint32_t two[2] = {TOKEN_BOS, 7};
        size_t count =
            mlm_mask(two, rows, labels, 2, VOCAB, 0.15, rng_key(test_seed(), RNG_TEST, 6, s));
        REQUIRE(count <= 1);
        chosen += (double)count;
    }
    CHECK(binomial(chosen, 20000, 0.15));
    /* the smallest vocabulary has one word to draw */
    for (uint64_t s = 0; s < 100; s++) {
        uint32_t one = TOKEN_SPECIALS;
        if (mlm_mask(&one, rows, labels, 1, TOKEN_SPECIALS + 1, 1, key + s) == 1)
            CHECK(one == 4 || one == 5);
    }
}

const Test tests_mlm_mask[] = {{"statistics", test_statistics, 0},
                               {"pairs", test_pairs, 0},
                               {"pure", test_pure, 0},
                               {"edges", test_edges, 0},
                               {0}};
