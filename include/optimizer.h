/* AdamW with bias correction (Loshchilov and Hutter, arXiv 1711.05101) and SGD with momentum, as
 * loops over the tensor table. */
#ifndef OPTIMIZER_H
#define OPTIMIZER_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "params.h"

/* Moment blocks an optimizer keeps: 2 for AdamW, 1 for SGD. */
size_t optimizer_moments(const OptimizerConfig *config);

/* Times that the norm and an update read or write a block of the parameters' size. */
int optimizer_passes(const OptimizerConfig *config);

/* One update of every trainable tensor, in place, one pass over memory.  grads are multiplied by
 * grad_scale first (clipping).
 *   AdamW: m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;
 *          w -= lr * (mhat / (sqrt(vhat) + eps) + weight_decay * w)
 *   SGD:   m = momentum m + g;   w -= lr * (m + weight_decay * w);  adam_v may be NULL
 * step counts updates from 1.  Blocks have table->block_reals reals.  Frozen tensors stay as they
 * are.  The result does not depend on the thread count: every element is computed alone. */
void optimizer_step(real *weights, real *adam_m, real *adam_v, const real *grads,
                    const ParamTable *table, const OptimizerConfig *config, double lr,
                    double grad_scale, uint64_t step);

/* Global L2 norm of the gradients (double accumulation, fixed order); NaN or infinite if any
 * element is. */
double optimizer_grad_norm(const real *grads, const ParamTable *table);

/* Factor that brings a gradient of this norm to at most `clip`, at most 1; 1 where clip is 0. */
double optimizer_clip_scale(double norm, double clip);

#endif
