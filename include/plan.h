/* What a configuration will cost, without running it. */
#ifndef PLAN_H
#define PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "config.h"
#include "err.h"

typedef struct Plan {
    size_t parameters, trainable, projection_matrices;
    size_t weight_bytes, grad_bytes, moment_bytes, activation_bytes, batch_bytes; /* of training with the config's micro_batch */
    size_t memory_bytes;            /* their sum */
    double flops_per_token;         /* forward and backward, multiply and add counted as two, masked rows only in the head; full-length sequences */
    double forward_flops_per_token;
} Plan;

bool plan_compute(Plan *out, const Config *config, Err *err);

/* Floating-point operations of one training step over a given ragged batch, counted from the products actually made. */
double plan_step_flops(const ModelConfig *config, const size_t *lengths, size_t B, size_t masked);

#endif
