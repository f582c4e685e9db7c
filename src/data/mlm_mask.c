#include "mlm_mask.h"

#include <assert.h>

#include "rng.h"
#include "tokenizer.h"

/* Shares of the chosen tokens; what is left over stays as it is. */
static const double SHARE_MASK = 0.8, SHARE_RANDOM = 0.1;

/* Indices of a sequence's draws: 0 the count, then one range for each question asked of a position.
 */
static const uint64_t DRAW_COUNT = 0, DRAW_CHOICE = 1ull << 32, DRAW_KIND = 2ull << 32,
                      DRAW_ID = 3ull << 32;

size_t mlm_maskable(const uint32_t *ids, size_t T) {
    size_t count = 0;
    for (size_t t = 0; t < T; t++) count += ids[t] >= TOKEN_SPECIALS;
    return count;
}

size_t mlm_mask_count(uint64_t key, size_t maskable, double rate) {
    size_t count = (size_t)(rate * (double)maskable + rng_uniform(key, DRAW_COUNT));
    return count < maskable ? count : maskable;
}

static uint32_t replacement(uint64_t key, size_t t, uint32_t id, size_t vocab) {
    double kind = rng_uniform(key, DRAW_KIND + t);
    if (kind < SHARE_MASK) return TOKEN_MASK;
    if (kind >= SHARE_MASK + SHARE_RANDOM) return id;
    return (uint32_t)(TOKEN_SPECIALS + rng_below(key, DRAW_ID + t, vocab - TOKEN_SPECIALS));
}

size_t mlm_mask(uint32_t *ids, uint32_t *rows, uint32_t *labels, size_t T, size_t vocab,
                double rate, uint64_t key) {
    assert(vocab > TOKEN_SPECIALS);
    size_t left = mlm_maskable(ids, T);
    size_t wanted = mlm_mask_count(key, left, rate), count = 0;
    /* selection sampling: a candidate is taken with probability (still wanted) / (candidates left)
     */
    for (size_t t = 0; count < wanted; t++) {
        assert(t < T);
        if (ids[t] < TOKEN_SPECIALS) continue;
        if (rng_below(key, DRAW_CHOICE + t, left--) >= wanted - count) continue;
        rows[count] = (uint32_t)t;
        labels[count] = ids[t];
        ids[t] = replacement(key, t, ids[t], vocab);
        count++;
    }
    return count;
}
