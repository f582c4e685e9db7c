/* Panels of bf16: for each pair of k the pairs of a panel's rows side by side, a pair in one 32-bit
 * word, as one dot-product instruction takes them. */
#include "mixed_panels.h"

#ifdef MIXED_X86

#define BF16_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512bf16")))
#define BF16_INLINE static inline __attribute__((always_inline)) BF16_TARGET

enum { COLS = 32 };

/* Rows that lie along k: up to 16 of them, 16 pairs at a time, through a transposition. */
BF16_INLINE void pack_along_k(uint16_t *restrict panel, size_t width, const MixedFactor *f,
                              size_t row, size_t rows, size_t lanes, size_t k0, size_t depth) {
    __mmask16 store = (__mmask16)low_bits(lanes);
    for (size_t k = 0; k < depth; k += 2 * LANES) {
        uint64_t there = low_bits(depth - k);
        __m512i block[LANES];
        for (size_t i = 0; i < LANES; i++) {
            const float *at = f->data + (row + i) * f->ld + k0 + k;
            block[i] = _mm512_setzero_si512();
            if (i >= rows) continue;
            __m512 low = _mm512_maskz_loadu_ps((__mmask16)there, at);
            __m512 high = _mm512_maskz_loadu_ps((__mmask16)(there >> LANES), at + LANES);
            block[i] = (__m512i)_mm512_cvtne2ps_pbh(high, low);
        }
        transpose_words(block);
        size_t pairs = (depth - k + 1) / 2;
        for (size_t p = 0; p < LANES && p < pairs; p++)
            _mm512_mask_storeu_epi32(panel + (k + 2 * p) * width, store, block[p]);
    }
}

/* Rows that lie across k: the numbers of two k, interleaved. */
BF16_INLINE void pack_across_k(uint16_t *restrict panel, size_t width, const MixedFactor *f,
                               size_t row, size_t rows, size_t lanes, size_t k0, size_t depth) {
    static const uint16_t interleaved[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                             21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                             11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const __m512i order = _mm512_loadu_si512(interleaved);
    __mmask16 store = (__mmask16)low_bits(lanes), there = (__mmask16)low_bits(rows);
    for (size_t k = 0; k < depth; k += 2) {
        const float *at = f->data + (k0 + k) * f->ld + row;
        __m512 even = _mm512_maskz_loadu_ps(there, at), odd = _mm512_setzero_ps();
        if (k + 1 < depth) odd = _mm512_maskz_loadu_ps(there, at + f->ld);
        __m512i both = (__m512i)_mm512_cvtne2ps_pbh(odd, even);
        _mm512_mask_storeu_epi32(panel + k * width, store, _mm512_permutexvar_epi16(order, both));
    }
}

BF16_TARGET
static void pack(uint16_t *restrict packed, float *restrict unscale, const MixedFactor *f,
                 size_t width, size_t first, size_t count, size_t k0, size_t depth) {
    (void)unscale; /* bf16 has the range of float */
    for (size_t r = 0; r < count; r += width) {
        uint16_t *panel = packed + r * ((depth + 1) / 2 * 2);
        for (size_t part = 0; part < width; part += LANES) {
            size_t at = r + part, left = at < count ? count - at : 0;
            size_t lanes = width - part < LANES ? width - part : LANES;
            size_t rows = left < lanes ? left : lanes;
            if (f->along_k)
                pack_along_k(panel + 2 * part, width, f, first + at, rows, lanes, k0, depth);
            else
                pack_across_k(panel + 2 * part, width, f, first + at, rows, lanes, k0, depth);
        }
    }
}

BF16_TARGET
static void multiply(float *restrict c, size_t ldc, const uint16_t *restrict a,
                     const uint16_t *restrict b, const float *restrict unscale_a,
                     const float *restrict unscale_b, size_t depth, size_t rows, size_t cols,
                     bool add) {
    (void)unscale_a;
    (void)unscale_b;
    uint64_t mask = low_bits(cols);
    __mmask16 left = (__mmask16)mask, right = (__mmask16)(mask >> LANES);
    __m512 sum[PANEL_ROWS][2];
#pragma GCC unroll 14
    for (int i = 0; i < PANEL_ROWS; i++) sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    for (size_t k = 0; k < depth; k += 2) {
        const uint16_t *pair = a + k * PANEL_ROWS;
        __m512bh b0 = (__m512bh)_mm512_load_si512(b + k * COLS);
        __m512bh b1 = (__m512bh)_mm512_load_si512(b + k * COLS + 2 * LANES);
#pragma GCC unroll 14
        for (int i = 0; i < PANEL_ROWS; i++) {
            int word;
            __builtin_memcpy(&word, pair + 2 * i, sizeof word);
            __m512bh x = (__m512bh)_mm512_set1_epi32(word);
            sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, b0);
            sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, b1);
        }
    }
#pragma GCC unroll 14
    for (size_t i = 0; i < PANEL_ROWS; i++) {
        if (i >= rows) break;
        float *row = c + i * ldc;
        __m512 y0 = sum[i][0], y1 = sum[i][1];
        if (add) {
            y0 = _mm512_add_ps(y0, _mm512_maskz_loadu_ps(left, row));
            y1 = _mm512_add_ps(y1, _mm512_maskz_loadu_ps(right, row + LANES));
        }
        _mm512_mask_storeu_ps(row, left, y0);
        _mm512_mask_storeu_ps(row + LANES, right, y1);
    }
}

const MixedKernel *mixed_kernel_bf16(void) {
    static const MixedKernel kernel = {COLS, pack, multiply};
    bool there = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                 __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bf16");
    return there ? &kernel : NULL;
}

#else

const MixedKernel *mixed_kernel_bf16(void) {
    return NULL;
}
#endif
