#include "pooled_kv.h"

#include "laps.h"
#include "linear.h"
#include "pool_project.h"

static PoolShape pool_shape(const Pass *pass, size_t l) {
    const ModelConfig *config = pass->config;
    return (PoolShape){.B = pass->batch->B,
                       .P = config->k[l],
                       .N = config->n,
                       .C = config->width,
                       .start = pass->batch->start,
                       .row_start = pass->acts->key_start};
}

/* Between the taps of two heads: one set below the other, or one for all. */
static size_t taps_stride(const PoolShape *shape, const ModelConfig *config) {
    return config->scope == SCOPE_HEAD ? pool_taps(shape->P, shape->N) * (shape->C / config->heads)
                                       : 0;
}

/* After pooling `times` times: a product for each token and column in a convolution, none in the
 * others; `arrays` of tokens and as many of rows read and written. */
static void lap_pool(const Pass *pass, const PoolShape *shape, int times, int arrays) {
    double tokens = (double)shape->start[shape->B] * (double)shape->C,
           rows = (double)shape->row_start[shape->B] * (double)shape->C;
    bool multiplies = pass->config->projection == PROJECTION_CONV;
    profile_lap(pass->acts->profile, PROFILE_SEQ_PROJECT, multiplies ? 2 * tokens * times : 0,
                (tokens + rows) * arrays * sizeof(real));
}

static void map_forward(const Pass *pass, real *y, const real *x, const real *w, const real *b,
                        size_t rows) {
    size_t C = pass->config->width;
    linear_forward(y, x, w, b, rows, C, C, &pass->acts->mixed);
    lap_linear(pass->acts, PROFILE_QKV, rows, C, C, 1);
}

static void map_backward(const Pass *pass, real *d_x, real *d_w, real *d_b, const real *d_y,
                         const real *x, const real *w, size_t rows, int accumulate) {
    size_t C = pass->config->width;
    linear_backward(d_x, d_w, d_b, d_y, x, w, rows, C, C, accumulate, &pass->acts->mixed);
    lap_linear(pass->acts, PROFILE_QKV, rows, C, C, 2);
}

/* Keys or values of `max` and `conv`: features, then windows. */
static void pool_forward(const Pass *pass, const PoolShape *shape, real *y, const real *x,
                         const real *taps) {
    const ModelConfig *config = pass->config;
    if (config->projection == PROJECTION_MAX)
        pool_max_forward(y, x, shape);
    else
        pool_conv_forward(y, x, taps, taps_stride(shape, config), config->heads, shape);
    lap_pool(pass, shape, 1, 1);
}

/* d_x overwritten. */
static void pool_backward(const Pass *pass, const PoolShape *shape, real *d_x, real *d_taps,
                          const real *d_y, const real *x, const real *y, const real *taps) {
    const ModelConfig *config = pass->config;
    if (config->projection == PROJECTION_MAX)
        pool_max_backward(d_x, d_y, x, y, shape);
    else
        pool_conv_backward(d_x, d_taps, d_y, x, taps, taps_stride(shape, config), config->heads,
                           shape);
    lap_pool(pass, shape, 2, 2);
}

void pooled_kv_forward(const Pass *pass, size_t l, const real *x) {
    const LayerParams *w = &pass->params->layers[l];
    const LayerActs *a = &pass->acts->layers[l];
    PoolShape shape = pool_shape(pass, l);
    size_t total = pass->batch->total, rows = shape.row_start[shape.B];
    if (pass->config->projection == PROJECTION_MEAN) {
        pool_mean_forward(a->k_pre, x, &shape);
        lap_pool(pass, &shape, 1, 1);
        map_forward(pass, a->kp, a->k_pre, w->k_w, w->k_b, rows);
        map_forward(pass, a->vp, a->k_pre, w->v_w, w->v_b, rows);
    } else {
        map_forward(pass, a->k_pre, x, w->k_w, w->k_b, total);
        map_forward(pass, a->v_pre, x, w->v_w, w->v_b, total);
        pool_forward(pass, &shape, a->kp, a->k_pre, w->seq_proj_k);
        pool_forward(pass, &shape, a->vp, a->v_pre, w->seq_proj_v);
    }
}

void pooled_kv_backward(const Pass *pass, size_t l, real *d_x, const real *x) {
    const LayerParams *w = &pass->params->layers[l], *g = &pass->grads->layers[l];
    const LayerActs *a = &pass->acts->layers[l];
    const Activations *acts = pass->acts;
    PoolShape shape = pool_shape(pass, l);
    size_t total = pass->batch->total, rows = shape.row_start[shape.B];
    real *d_pre = acts->d_branch;
    if (pass->config->projection == PROJECTION_MEAN) {
        map_backward(pass, d_pre, g->k_w, g->k_b, acts->d_kp, a->k_pre, w->k_w, rows, 0);
        map_backward(pass, d_pre, g->v_w, g->v_b, acts->d_vp, a->k_pre, w->v_w, rows, 1);
        pool_mean_backward(d_x, d_pre, &shape);
        lap_pool(pass, &shape, 1, 2);
    } else {
        pool_backward(pass, &shape, d_pre, g->seq_proj_k, acts->d_kp, a->k_pre, a->kp,
                      w->seq_proj_k);
        map_backward(pass, d_x, g->k_w, g->k_b, d_pre, x, w->k_w, total, 1);
        pool_backward(pass, &shape, d_pre, g->seq_proj_v, acts->d_vp, a->v_pre, a->vp,
                      w->seq_proj_v);
        map_backward(pass, d_x, g->v_w, g->v_b, d_pre, x, w->v_w, total, 1);
    }
}
