/* Panels of fp16: for each k the numbers of a panel's rows side by side. */
#include "mixed_gemm.h"
#include "mixed_panels.h"

#ifdef MIXED_X86

#define FP16_TARGET __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512fp16")))
#define FP16_INLINE static inline __attribute__((always_inline)) FP16_TARGET

enum {
    COLS = 64,
    AHEAD = 16,     /* k read into the first cache before their use */
    NEXT_PANEL = 32 /* columns on, where a factor lies across k */
};

/* In a chain the largest number of a panel of a is scaled into [16,32), of b into [8,16): products
 * are below 2^9 and sums of MIXED_CHAIN of them below 2^15, where fp16 ends at 65504. */
enum { LARGEST_A = 4, LARGEST_B = 3, EXPONENT_MASK = 255, EXPONENT_BIAS = 127, EXPONENT_AT = 23 };

/* Numbers of k from `k` on, up to 16, of row (column) `row`; or of rows from `row` on, at one k. */
FP16_INLINE __m512 load(const MixedFactor *f, size_t row, size_t k, size_t count) {
    const float *at = f->along_k ? f->data + row * f->ld + k : f->data + k * f->ld + row;
    return _mm512_maskz_loadu_ps((__mmask16)low_bits(count), at);
}

/* max(a, |b|) of the bit patterns, which order as the numbers do; infinities and NaN left out. */
FP16_INLINE __m512i larger_magnitude(__m512i a, __m512 b) {
    __m512i bits = _mm512_and_si512(_mm512_castps_si512(b), _mm512_set1_epi32(0x7fffffff));
    __mmask16 finite = _mm512_cmplt_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));
    return _mm512_mask_max_epi32(a, finite, a, bits);
}

/* Exponent bits of the largest finite number of `rows` rows from `row`, k from k to k+count-1.
 * Asks for what the next call will read: it lies too far off for the processor to foresee. */
FP16_INLINE int largest_exponent(const MixedFactor *f, size_t row, size_t rows, size_t k,
                                 size_t count) {
    __m512i largest = _mm512_setzero_si512();
    size_t outer = f->along_k ? rows : count, inner = f->along_k ? count : rows;
    const float *begin = f->along_k ? f->data + row * f->ld + k : f->data + k * f->ld + row;
    size_t next = f->along_k ? MIXED_CHAIN : NEXT_PANEL;
    for (size_t i = 0; i < outer; i++) {
        for (size_t j = 0; j < inner; j += LANES) {
            const float *at = begin + i * f->ld + j;
            __builtin_prefetch(at + next);
            __m512 x = _mm512_maskz_loadu_ps((__mmask16)low_bits(inner - j), at);
            largest = larger_magnitude(largest, x);
        }
    }
    return _mm512_reduce_max_epi32(largest) >> EXPONENT_AT;
}

/* 2^power as a float, for -126 <= power <= 127. */
static float power_of_two(int power) {
    union {
        uint32_t bits;
        float value;
    } x = {.bits = (uint32_t)(power + EXPONENT_BIAS) << EXPONENT_AT};
    return x.value;
}

/* 16 numbers of a panel at one k; of a the 14 that its panels have. */
FP16_INLINE void store_halves(uint16_t *panel, size_t width, size_t k, size_t part, __m512 x,
                              __m512 scale) {
    __m256i half =
        _mm512_cvtps_ph(_mm512_mul_ps(x, scale), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    if (width == COLS) {
        _mm256_storeu_si256((__m256i *)(panel + k * COLS + part), half);
        return;
    }
    _mm256_mask_storeu_epi16(panel + k * PANEL_ROWS, (__mmask16)low_bits(PANEL_ROWS), half);
}

/* Up to 16 rows, of which `rows` are there, at every k: from row `part` of the panel on. */
FP16_INLINE void pack_rows(uint16_t *restrict panel, size_t width, size_t part,
                           const MixedFactor *f, size_t row, size_t rows, size_t k0, size_t depth,
                           __m512 scale) {
    if (!f->along_k) {
        for (size_t k = 0; k < depth; k++)
            store_halves(panel, width, k, part, load(f, row, k0 + k, rows), scale);
        return;
    }
    for (size_t k = 0; k < depth; k += LANES) {
        __m512i block[LANES];
        size_t left = depth - k < LANES ? depth - k : LANES;
        for (size_t i = 0; i < LANES; i++)
            block[i] = i < rows ? _mm512_castps_si512(load(f, row + i, k0 + k, left))
                                : _mm512_setzero_si512();
        transpose_words(block);
        for (size_t i = 0; i < left; i++)
            store_halves(panel, width, k + i, part, _mm512_castsi512_ps(block[i]), scale);
    }
}

/* One chain of a panel, short enough to be read twice from the first cache. */
FP16_INLINE void pack_chain(uint16_t *restrict panel, float *restrict unscale, const MixedFactor *f,
                            size_t width, size_t row, size_t rows, size_t k, size_t count) {
    int target = width == COLS ? LARGEST_B : LARGEST_A;
    int power = target - (largest_exponent(f, row, rows, k, count) - EXPONENT_BIAS);
    if (power > 126) power = 126; /* zeros, or nearly */
    __m512 scale = _mm512_set1_ps(power_of_two(power));
    for (size_t part = 0; part < width; part += LANES) {
        size_t left = part < rows ? rows - part : 0;
        pack_rows(panel, width, part, f, row + part, left < LANES ? left : LANES, k, count, scale);
    }
    *unscale = power_of_two(-power);
}

/* In the order of the factor's memory: chain after chain of a panel where it lies along k, panel
 * after panel where it lies across. */
FP16_INLINE void pack_panels(uint16_t *restrict packed, float *restrict unscale,
                             const MixedFactor *f, size_t width, size_t first, size_t count,
                             size_t k0, size_t depth) {
    size_t chains = mixed_chains(depth), panels = (count + width - 1) / width;
    size_t even = (depth + 1) / 2 * 2;
    for (size_t i = 0; i < panels * chains; i++) {
        size_t p = f->along_k ? i / chains : i % panels, r = p * width;
        size_t chain = f->along_k ? i % chains : i / panels, k = chain * MIXED_CHAIN;
        pack_chain(packed + r * even + k * width, unscale + p * chains + chain, f, width, first + r,
                   count - r < width ? count - r : width, k0 + k,
                   depth - k < MIXED_CHAIN ? depth - k : MIXED_CHAIN);
    }
}

/* The loops are compiled for either width and direction. */
FP16_TARGET
static void pack(uint16_t *restrict packed, float *restrict unscale, const MixedFactor *f,
                 size_t width, size_t first, size_t count, size_t k0, size_t depth) {
    const MixedFactor along = {f->data, f->ld, true}, across = {f->data, f->ld, false};
    if (width == COLS && f->along_k)
        pack_panels(packed, unscale, &along, COLS, first, count, k0, depth);
    else if (width == COLS)
        pack_panels(packed, unscale, &across, COLS, first, count, k0, depth);
    else if (f->along_k)
        pack_panels(packed, unscale, &along, PANEL_ROWS, first, count, k0, depth);
    else
        pack_panels(packed, unscale, &across, PANEL_ROWS, first, count, k0, depth);
}

/* sum += a b, with one number of a for all of b.  gcc would load and spread the number in two
 * steps, the second of which takes a multiplier's time. */
#define MULTIPLY_ADD(sum, number, b)                                                               \
    __asm__("vfmadd231ph %2%{1to32%}, %1, %0"                                                      \
            : "+v"(sum)                                                                            \
            : "v"(b), "m"(*(const uint16_t *)(number)))

/* c (16 numbers under the mask) = or += unscale * half */
FP16_INLINE void add_halves(float *c, __mmask16 mask, __m256h half, __m512 unscale, bool add) {
    __m512 x = _mm512_cvtxph_ps(half);
    if (add)
        x = _mm512_fmadd_ps(x, unscale, _mm512_maskz_loadu_ps(mask, c));
    else
        x = _mm512_mul_ps(x, unscale);
    _mm512_mask_storeu_ps(c, mask, x);
}

FP16_INLINE void add_sums(float *c, uint64_t mask, const __m512h sum[2], __m512 unscale, bool add) {
    for (int i = 0; i < 2; i++) {
        __m512d bits = _mm512_castph_pd(sum[i]);
        __m256h low = _mm256_castpd_ph(_mm512_castpd512_pd256(bits));
        __m256h high = _mm256_castpd_ph(_mm512_extractf64x4_pd(bits, 1));
        add_halves(c + 2 * i * LANES, (__mmask16)(mask >> 2 * i * LANES), low, unscale, add);
        add_halves(c + (2 * i + 1) * LANES, (__mmask16)(mask >> (2 * i + 1) * LANES), high, unscale,
                   add);
    }
}

FP16_TARGET
static void multiply(float *restrict c, size_t ldc, const uint16_t *restrict a,
                     const uint16_t *restrict b, const float *restrict unscale_a,
                     const float *restrict unscale_b, size_t depth, size_t rows, size_t cols,
                     bool add) {
    uint64_t mask = low_bits(cols);
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j += LANES) __builtin_prefetch(c + i * ldc + j, 1);
    for (size_t begin = 0; begin < depth; begin += MIXED_CHAIN) {
        size_t end = depth - begin < MIXED_CHAIN ? depth : begin + MIXED_CHAIN;
        __m512 scale = _mm512_set1_ps(*unscale_a++ * *unscale_b++);
        __m512h sum[PANEL_ROWS][2];
#pragma GCC unroll 14
        for (int i = 0; i < PANEL_ROWS; i++) sum[i][0] = sum[i][1] = _mm512_setzero_ph();
        for (size_t k = begin; k < end; k++) {
            __builtin_prefetch(b + (k + AHEAD) * COLS);
            __builtin_prefetch(b + (k + AHEAD) * COLS + 32);
            __m512h b0 = _mm512_load_ph(b + k * COLS), b1 = _mm512_load_ph(b + k * COLS + 32);
#pragma GCC unroll 14
            for (int i = 0; i < PANEL_ROWS; i++) {
                MULTIPLY_ADD(sum[i][0], a + k * PANEL_ROWS + i, b0);
                MULTIPLY_ADD(sum[i][1], a + k * PANEL_ROWS + i, b1);
            }
        }
#pragma GCC unroll 14
        for (size_t i = 0; i < PANEL_ROWS; i++) {
            if (i >= rows) break;
            add_sums(c + i * ldc, mask, sum[i], scale, add || begin > 0);
        }
    }
}

/* Asked for every product, so not of the processor itself: in a virtual machine CPUID takes longer
 * than a small product. */
static bool has_fp16(void) {
#ifdef __clang__
    return true; /* it does not know the name; all of such a build needs the instructions */
#else
    return __builtin_cpu_supports("avx512fp16");
#endif
}

const MixedKernel *mixed_kernel_fp16(void) {
    static const MixedKernel kernel = {COLS, pack, multiply};
    bool there = __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                 __builtin_cpu_supports("avx512dq") && has_fp16();
    return there ? &kernel : NULL;
}

#else

const MixedKernel *mixed_kernel_fp16(void) {
    return NULL;
}
#endif
