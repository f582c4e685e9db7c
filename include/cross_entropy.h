/* Softmax cross-entropy in nats. */
#ifndef CROSS_ENTROPY_H
#define CROSS_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

#include "real.h"

/* loss[r] = log-sum-exp(logits_r) - logits_r[label_r], overwritten   logits (rows,V), labels (rows)
 * < V Where grad_scale is not 0, logits is overwritten by its gradient: grad_scale * (softmax -
 * onehot); else it is only read. */
void cross_entropy(real *restrict loss, real *restrict logits, const uint32_t *restrict labels,
                   size_t rows, size_t V, real grad_scale);

/* Sum of the losses, in double. */
double loss_sum(const real *loss, size_t rows);

/* Row-wise softmax in place, x (rows,V). */
void softmax_rows(real *x, size_t rows, size_t V);

/* Row-wise logarithm of the softmax in place, x (rows,V). */
void log_softmax_rows(real *x, size_t rows, size_t V);

#endif
