#include "rng.h"

#include <assert.h>
#include <math.h>

enum { PERMUTE_ROUNDS = 6, PERMUTE_MIN_BITS = 8 };

/* A bijection of 64 bits in which every input bit reaches every output bit. */
static uint64_t mix(uint64_t x) {
    x ^= x >> 30;
    x *= 0xBF58476D1CE4E5B9u;
    x ^= x >> 27;
    x *= 0x94D049BB133111EBu;
    x ^= x >> 31;
    return x;
}

uint64_t rng_key(uint64_t seed, RngPurpose purpose, uint64_t a, uint64_t b) {
    /* mixed after every word: (a, b) and (b, a), or a sum that two pairs share, give unrelated
     * keys */
    uint64_t x = mix(seed + 0x9E3779B97F4A7C15u);
    x = mix(x ^ ((uint64_t)purpose * 0xD1342543DE82EF95u));
    x = mix(x + a * 0x9E3779B97F4A7C15u + 1);
    x = mix(x ^ (b * 0xDA942042E4DD58B5u));
    return x;
}

uint64_t rng_u64(uint64_t key, uint64_t index) {
    /* the key enters twice: with once, keys a multiple of the step apart would share a shifted
     * sequence */
    uint64_t x = mix(index * 0x9E3779B97F4A7C15u + key);
    return mix(x ^ (key * 0xD1342543DE82EF95u + 0x632BE59BD9B4E019u));
}

double rng_uniform(uint64_t key, uint64_t index) {
    return (double)(rng_u64(key, index) >> 11) * 0x1p-53;
}

uint64_t rng_below(uint64_t key, uint64_t index, uint64_t bound) {
    assert(bound > 0);
    __extension__ typedef unsigned __int128 u128;
    return (uint64_t)(((u128)rng_u64(key, index) * bound) >> 64);
}

double rng_normal(uint64_t key, uint64_t index) {
    static const double TWO_PI = 6.283185307179586476925;
    /* normals share no draws with uniforms of the same key */
    uint64_t own_key = key ^ 0xA0761D6478BD642Fu;
    double u = 1.0 - rng_uniform(own_key, 2 * index); /* (0, 1]: the logarithm stays finite */
    double v = rng_uniform(own_key, 2 * index + 1);
    return sqrt(-2.0 * log(u)) * cos(TWO_PI * v);
}

uint64_t rng_permute(uint64_t key, uint64_t index, uint64_t count) {
    assert(index < count);
    /* small counts walk in a domain of 2^8, because a network of few bits reaches few
     * permutations */
    unsigned bits = PERMUTE_MIN_BITS;
    while (bits < 64 && ((count - 1) >> bits) != 0) bits++;
    unsigned low_bits = bits / 2, high_bits = bits - low_bits;
    uint64_t low_mask = (UINT64_C(1) << low_bits) - 1, high_mask = (UINT64_C(1) << high_bits) - 1;

    uint64_t x = index;
    /* the network permutes 0..2^bits-1; following its cycle until below count permutes
     * 0..count-1 */
    do {
        uint64_t low = x & low_mask, high = x >> low_bits;
        for (uint64_t round = 0; round < PERMUTE_ROUNDS; round += 2) {
            high ^= rng_u64(key ^ round, low) & high_mask;
            low ^= rng_u64(key ^ (round + 1), high) & low_mask;
        }
        x = high << low_bits | low;
    } while (x >= count);
    return x;
}
