/* Precision of the factors of matrix products (mixed_gemm.h says what each is). */
#ifndef PRECISION_H
#define PRECISION_H

typedef enum Precision { PRECISION_FP32, PRECISION_BF16, PRECISION_FP16 } Precision;

/* Its value of train.precision. */
static inline const char *precision_name(Precision precision) {
    return precision == PRECISION_FP32 ? "fp32" : precision == PRECISION_BF16 ? "bf16" : "fp16";
}

#endif
