#include "optimizer.h"

#include <assert.h>
#include <math.h>
#include <tgmath.h>

#include "elementwise.h"
#include "parallel.h"

/* Scalars of one AdamW update, the bias corrections folded in. */
typedef struct AdamScalars {
    real beta1, beta2;
    real grad_scale;
    real rate;       /* lr / (1 - b1^step) */
    real root_scale; /* 1 / sqrt(1 - b2^step): sqrt(vhat) = sqrt(v) * root_scale */
    real eps;
    real shrink; /* lr * weight_decay of this tensor */
} AdamScalars;

static AdamScalars adam_scalars(const OptimizerConfig *config, double lr, double grad_scale,
                                uint64_t step) {
    double b1 = config->betas[0], b2 = config->betas[1];
    return (AdamScalars){
        .beta1 = (real)b1,
        .beta2 = (real)b2,
        .grad_scale = (real)grad_scale,
        .rate = (real)(lr / (1 - pow(b1, (double)step))),
        .root_scale = (real)(1 / sqrt(1 - pow(b2, (double)step))),
        .eps = (real)config->eps,
    };
}

/* Called by every thread of a team: the loop's iterations are shared out. */
static void adamw_share(real *restrict w, real *restrict m, real *restrict v,
                        const real *restrict g, size_t count, AdamScalars s) {
    const real one = 1;
#pragma omp for simd schedule(static) nowait
    for (size_t i = 0; i < count; i++) {
        real gi = g[i] * s.grad_scale;
        real mi = s.beta1 * m[i] + (one - s.beta1) * gi;
        real vi = s.beta2 * v[i] + (one - s.beta2) * gi * gi;
        m[i] = mi;
        v[i] = vi;
        w[i] -= s.rate * mi / (sqrt(vi) * s.root_scale + s.eps) + s.shrink * w[i];
    }
}

static void sgd_share(real *restrict w, real *restrict m, const real *restrict g, size_t count,
                      real momentum, real grad_scale, real lr, real shrink) {
#pragma omp for simd schedule(static) nowait
    for (size_t i = 0; i < count; i++) {
        real mi = momentum * m[i] + g[i] * grad_scale;
        m[i] = mi;
        w[i] -= lr * mi + shrink * w[i];
    }
}

size_t optimizer_moments(const OptimizerConfig *config) {
    return config->name == OPTIMIZER_ADAMW ? 2 : 1;
}

int optimizer_passes(const OptimizerConfig *config) {
    return config->name == OPTIMIZER_ADAMW ? 1 + 7 : 1 + 5;
}

/* The share of the learning rate that a tensor learns at. */
static double lr_share(const Tensor *tensor, const OptimizerConfig *config) {
    if (tensor->init == INIT_PROJECTION) return config->proj_lr;
    return tensor->init == INIT_POSITION ? config->position_lr : 1;
}

void optimizer_step(real *weights, real *adam_m, real *adam_v, const real *grads,
                    const ParamTable *table, const OptimizerConfig *config, double lr,
                    double grad_scale, uint64_t step) {
    assert(step > 0);
    assert(adam_v || config->name == OPTIMIZER_SGD);
    const AdamScalars all = adam_scalars(config, lr, grad_scale, step);
#pragma omp parallel if (table->parameters >= PARALLEL_MIN)
    for (size_t i = 0; i < table->count;
         i++) { /* one team for all tensors; none waits, for they do not overlap */
        const Tensor *t = &table->items[i];
        if (t->frozen) continue;
        bool decays = t->matrix || config->decay == DECAY_ALL;
        double share = lr_share(t, config);
        AdamScalars s = all;
        s.rate *= (real)share;
        s.shrink = decays ? (real)(share * lr * config->weight_decay) : 0;
        if (config->name == OPTIMIZER_ADAMW) {
            adamw_share(weights + t->offset, adam_m + t->offset, adam_v + t->offset,
                        grads + t->offset, t->count, s);
        } else {
            sgd_share(weights + t->offset, adam_m + t->offset, grads + t->offset, t->count,
                      (real)config->momentum, (real)grad_scale, (real)(share * lr), s.shrink);
        }
    }
}

double optimizer_grad_norm(const real *grads, const ParamTable *table) {
    /* the gaps between tensors and the gradients of frozen ones are zero */
    return sqrt(vec_sum_squares(grads, table->block_reals));
}

double optimizer_clip_scale(double norm, double clip) {
    return clip > 0 && norm > clip ? clip / norm : 1;
}
