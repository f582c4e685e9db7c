/* exp and erf for elementwise loops: branch-free bodies the compiler vectorises in float; plain
 * libm in double. Float error bounds in units in the last place (tests/test_vector_math.c goes
 * through the floats): exp_real   1 ulp, exactly 1 at 0; 0 below -87.33654 (no subnormal results),
 * infinity above 88.72284, NaN for NaN erf_real   2 ulp, exactly +-1 from |x| = 4 on, odd, NaN for
 * NaN */
#ifndef VECTOR_MATH_H
#define VECTOR_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "real.h"

#ifdef REAL_IS_DOUBLE

static inline double exp_real(double x) {
    return exp(x);
}
static inline double erf_real(double x) {
    return erf(x);
}

#else

/* a b + c, fused where that is one instruction (-std=c11 forbids the compiler to contract by
 * itself). */
static inline float mul_add(float a, float b, float c) {
#ifdef FP_FAST_FMAF
    return fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

/* exp(x) = 2^n e^r with n = round(x / ln 2), |r| <= ln(2)/2; right for -87.33654 <= x <= 88.72283,
 * else garbage. */
static inline float exp_in_range(float x) {
    const float round_shift =
        12582912.0f; /* 1.5 * 2^23: after adding it the low bits of the float hold n */
    float shifted = mul_add(x, 1.44269504f, round_shift);
    float n = shifted - round_shift;
    float r = mul_add(n, -0.693359375f,
                      x); /* ln 2 in two parts; the first has 9 bits, so that n times it is exact */
    r = mul_add(n, 2.12194440e-4f, r);
    float q =
        1.38146128e-3f; /* minimax fit of (e^r - 1 - r) / r^2: relative error of e^r below 4e-9 */
    q = mul_add(q, r, 8.36871471e-3f);
    q = mul_add(q, r, 4.1668389e-2f);
    q = mul_add(q, r, 0.166665211f);
    q = mul_add(q, r, 0.49999994f);
    float y = 1.0f + mul_add(r * r, q, r);
    uint32_t bits, scale;
    memcpy(&bits, &y, sizeof bits);
    memcpy(&scale, &shifted, sizeof scale);
    bits += scale << 23; /* adds n to the exponent field */
    memcpy(&y, &bits, sizeof y);
    return y;
}

static inline float exp_real(float x) {
    float y = exp_in_range(x);
    y = x <= 88.72283f ? y : x * INFINITY; /* keeps NaN */
    return x < -87.33654f ? 0.0f : y;
}

/* Two minimax fits, both evaluated, one selected: x p(x^2) up to 0.9 (relative error 2e-8), and
 * above it 1 - exp(g(|x|)) with g a fit of log erfc (error of the result 2e-9). */
static inline float erf_real(float x) {
    float a = fabsf(x);
    a = a > 4.0f ? 4.0f : a;
    float u = a * a;
    float p = -0.000600852065f;
    p = mul_add(p, u, 0.00499658146f);
    p = mul_add(p, u, -0.0267688862f);
    p = mul_add(p, u, 0.112818773f);
    p = mul_add(p, u, -0.376124994f);
    p = mul_add(p, u, 0.12837915f); /* the constant term less 1, so that a + a p rounds once */
    float g = 0.00020022813f;
    g = mul_add(g, a, -0.00308491038f);
    g = mul_add(g, a, 0.0223914351f);
    g = mul_add(g, a, -0.104269195f);
    g = mul_add(g, a, -0.636802004f);
    g = mul_add(g, a, -1.12789869f);
    g = mul_add(g, a, -0.000142380916f);
    float y = a > 0.9f ? 1.0f - exp_in_range(g) : mul_add(a, p, a);
    return copysignf(y, x);
}

#endif
#endif
