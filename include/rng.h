/* Counter-based randomness: every draw is a pure function of (key, index); there is no stream and
 * no state, so results cannot depend on threads, batches or ranks, and a resumed run draws what the
 * unbroken one would have drawn. */
#ifndef RNG_H
#define RNG_H

#include <stddef.h>
#include <stdint.h>

/* What a key is for; part of the key, so that purposes never share draws.  Numbers are part of the
 * checkpoint contract. */
typedef enum RngPurpose {
    RNG_INIT = 1,      /* parameter initialisation */
    RNG_SHUFFLE = 2,   /* order of the sequences in an epoch */
    RNG_MASK = 3,      /* masked-language-model masking */
    RNG_DROPOUT = 4,   /* per-sequence dropout keys */
    RNG_EVAL_MASK = 5, /* fixed masks of an evaluation */
    RNG_SAMPLE = 6,    /* choice of lines for tokenizer training */
    RNG_TEST = 7,
    RNG_HOLDOUT = 8, /* rows of a task held out for evaluation */
    RNG_SHORT = 9    /* which sequences are cut into pieces, and how long those are */
} RngPurpose;

/* Key of (seed, purpose, a, b); a and b are what the purpose counts: step, epoch, layer,
 * sequence. */
uint64_t rng_key(uint64_t seed, RngPurpose purpose, uint64_t a, uint64_t b);

/* 64 random bits of (key, index). */
uint64_t rng_u64(uint64_t key, uint64_t index);

/* Uniform in [0, 1), 53 bits. */
double rng_uniform(uint64_t key, uint64_t index);

/* Uniform integer in [0, bound), bound > 0; unbiased to 2^-64 * bound. */
uint64_t rng_below(uint64_t key, uint64_t index, uint64_t bound);

/* Standard normal (Box-Muller on two draws). */
double rng_normal(uint64_t key, uint64_t index);

/* Position of `index` in a pseudo-random permutation of 0..count-1 given by key: O(1), nothing
 * stored (Feistel network with cycle walking). */
uint64_t rng_permute(uint64_t key, uint64_t index, uint64_t count);

/* 32 random bits of (key, index) for elementwise loops: cheap, and the compiler vectorises it.  Two
 * multiplications; passes the same uniformity and independence tests as rng_u64 in
 * tests/test_rng.c. */
static inline uint32_t rng_u32_fast(uint64_t key, uint32_t index) {
    uint32_t x = index * 0x9E3779B9u + (uint32_t)key;
    /* before both multiplications: neighbouring keys differ in every bit */
    x ^= x >> 16 ^ (uint32_t)(key >> 32);
    x *= 0x21F0AAADu;
    x ^= x >> 15;
    x *= 0xD35A2D97u;
    x ^= x >> 15;
    return x;
}

#endif
