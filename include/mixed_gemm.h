/* Matrix products in mixed precision: the factors are rounded to 16 bits on their way into the
 * product, sums and results are float.
 *   bf16  8 bits of precision, the range of float; AVX512-BF16 sums pairs of products in float.
 *         Fast where that instruction runs at the rate of a float multiply-add (AMD from Zen 4); on
 *         Intel's cores it has a quarter of that rate.
 *   fp16  11 bits of precision; AVX512-FP16 has twice the rate of float.  Sums of MIXED_CHAIN
 *         products, a chain, are made in fp16 and added up in float: the error of a product is then
 *         about 0.6 of that of bf16 (tests/test_mixed_gemm.c).  Either factor's part in a chain, of
 *         some rows or columns, is scaled by a power of two, so that the range is no concern: what
 *         is below 2^-17 of its part's largest number loses precision, what is below 2^-28 of it
 *         may count as zero; and so do sums below 2^-21 and 2^-32 of the product of the two parts'
 *         largest. */
#ifndef MIXED_GEMM_H
#define MIXED_GEMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"
#include "gemm.h"
#include "precision.h"
#include "real.h"

enum { MIXED_CHAIN = 64 };

/* Whether products of that precision work here: float always; the others in a build for x86-64
 * whose real is float, on a processor that has the instructions.  Where not, ERR_CONFIG and why. */
bool mixed_check(Precision precision, Err *err);

/* The precision of products, and where each of `threads` threads lays out its factors: a slice of
 * mixed_scratch_bytes(), 64-byte aligned.  Under PRECISION_FP32 neither is read. */
typedef struct Mixed {
    Precision precision;
    uint16_t *packed;
    size_t threads;
} Mixed;

size_t mixed_scratch_bytes(void);

/* gemm with alpha 1 and beta 0 or 1.  mixed->precision FP32, or mixed NULL: gemm itself.  Split
 * over the threads as gemm is, but not over more than mixed->threads; inside a parallel region on
 * the calling thread, whose number must be below mixed->threads. */
void mixed_gemm(real *c, size_t ldc, Trans trans_a, const real *a, size_t lda, Trans trans_b,
                const real *b, size_t ldb, size_t m, size_t n, size_t k, real beta,
                const Mixed *mixed);

#endif
