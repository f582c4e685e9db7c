/* What a kind of mixed precision has of its own: how panels of the factors are laid out, and the
 * product of two of them. */
#ifndef MIXED_PANELS_H
#define MIXED_PANELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mixed_gemm.h"

enum {
    PANEL_ROWS = 14,    /* of a; 28 sums of two registers of b, which leaves some for b and a */
    PANEL_COLS_MIN = 32 /* the fewest that a kernel has */
};

/* A factor, seen as rows of op(a) or columns of op(b), each with k numbers. */
typedef struct MixedFactor {
    const float *data;
    size_t ld;
    bool along_k; /* the numbers of a row (column) lie side by side */
} MixedFactor;

typedef struct MixedKernel {
    size_t cols; /* of a panel of b */

    /* `count` rows (columns) from `first`, k from k0 to k0+depth-1, as panels of `width`, one after
     * the other, each of width * (depth rounded up to even) numbers; rows that are not there are
     * zero. unscale (panels, mixed_chains(depth)): the factor that takes the scaling of a panel's
     * chain back; fp16 only. */
    void (*pack)(uint16_t *restrict packed, float *restrict unscale, const MixedFactor *factor,
                 size_t width, size_t first, size_t count, size_t k0, size_t depth);

    /* c (rows,cols) = (panel of a) (panel of b), added to c where add; unscale_a, unscale_b: those
     * panels' */
    void (*multiply)(float *restrict c, size_t ldc, const uint16_t *restrict a,
                     const uint16_t *restrict b, const float *restrict unscale_a,
                     const float *restrict unscale_b, size_t depth, size_t rows, size_t cols,
                     bool add);
} MixedKernel;

/* Chains of MIXED_CHAIN k, the last of which may be shorter. */
static inline size_t mixed_chains(size_t depth) {
    return (depth + MIXED_CHAIN - 1) / MIXED_CHAIN;
}

/* NULL where the build or the processor cannot. */
const MixedKernel *mixed_kernel_bf16(void);
const MixedKernel *mixed_kernel_fp16(void);

/* gcc compiles for instructions that the processor may lack, and they are chosen at run time; clang
 * 14 has these only where all of the program may use them. */
#if defined(__x86_64__) && !defined(REAL_IS_DOUBLE) &&                                             \
    (defined(__clang__) ? defined(__AVX512FP16__) && defined(__AVX512BF16__) : __GNUC__ >= 12)
#define MIXED_X86 1
#include <immintrin.h>

enum { LANES = 16 };

#define MIXED_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq")))

/* Bits 0 .. count-1. */
static inline uint64_t low_bits(size_t count) {
    return count >= 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1;
}

/* The 16 x 16 words of `rows`, transposed. */
MIXED_TARGET static inline __attribute__((always_inline)) void
transpose_words(__m512i rows[LANES]) {
    __m512i t[LANES];
    for (int i = 0; i < LANES; i += 2) {
        t[i] = _mm512_unpacklo_epi32(rows[i], rows[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(rows[i], rows[i + 1]);
    }
    for (int i = 0; i < LANES; i += 4) {
        rows[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        rows[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        rows[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        rows[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    /* quarter q of rows[4 g + j] now holds element 4 q + j of rows 4 g .. 4 g + 3 */
    for (int j = 0; j < 4; j++) {
        __m512i low01 = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0x88);
        __m512i high01 = _mm512_shuffle_i32x4(rows[j], rows[4 + j], 0xdd);
        __m512i low23 = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0x88);
        __m512i high23 = _mm512_shuffle_i32x4(rows[8 + j], rows[12 + j], 0xdd);
        t[j] = _mm512_shuffle_i32x4(low01, low23, 0x88);
        t[4 + j] = _mm512_shuffle_i32x4(high01, high23, 0x88);
        t[8 + j] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
        t[12 + j] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
    }
    for (int i = 0; i < LANES; i++) rows[i] = t[i];
}
#endif

#endif
