#include "train_blocks.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "optimizer.h"

bool train_blocks_create(TrainBlocks *out, const ParamTable *table, const ModelConfig *model,
                         const OptimizerConfig *optimizer, Err *err) {
    size_t moments = optimizer_moments(optimizer);
    real *blocks[4] = {NULL};
    *out = (TrainBlocks){.table = table};
    if (!param_blocks_create(blocks, &out->arena, table, 2 + moments, err))
        return err_context(err, "parameters, gradients and moments");
    params_view(&out->weights, table, model, blocks[0]);
    params_view(&out->grads, table, model, blocks[1]);
    out->adam_m = blocks[2];
    out->adam_v = blocks[3];
    return true;
}

void train_blocks_destroy(TrainBlocks *blocks) {
    arena_destroy(&blocks->arena);
    *blocks = (TrainBlocks){0};
}

bool train_blocks_fail_nonfinite(const TrainBlocks *blocks, uint64_t step, const char *what,
                                 double loss, double grad_norm, double lr, Err *err) {
    char where[96] = "no weight or gradient, but what is computed from them";
    const char *name = params_first_nonfinite(blocks->weights.block, blocks->table);
    if (name) {
        snprintf(where, sizeof where, "weight of %s", name);
    } else {
        name = params_first_nonfinite(blocks->grads.block, blocks->table);
        if (name) snprintf(where, sizeof where, "gradient of %s", name);
    }
    return err_set(err, ERR_NONFINITE,
                   "step %" PRIu64
                   ": %s %g, gradient norm %g at learning rate %g; first tensor that is not "
                   "finite: %s. Lower optimizer.lr, or set optimizer.clip",
                   step, what, loss, grad_norm, lr, where);
}

bool train_blocks_update(TrainBlocks *blocks, double *grad_norm, const OptimizerConfig *optimizer,
                         double loss, double lr, uint64_t step, Err *err) {
    double norm = *grad_norm = optimizer_grad_norm(blocks->grads.block, blocks->table);
    if (!isfinite(loss) || !isfinite(norm))
        return train_blocks_fail_nonfinite(blocks, step, "loss", loss, norm, lr, err);
    optimizer_step(blocks->weights.block, blocks->adam_m, blocks->adam_v, blocks->grads.block,
                   blocks->table, optimizer, lr, optimizer_clip_scale(norm, optimizer->clip), step);
    return true;
}
