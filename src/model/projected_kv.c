#include "projected_kv.h"

#include "laps.h"
#include "layer_keys.h"
#include "linear.h"
#include "pooled_kv.h"
#include "seq_project.h"

/* One projection of one layer: keys or values. */
typedef struct Half {
    const real *w, *b, *proj; /* (C,C), (C), E or F */
    real *pre, *out;          /* k_pre and kp, or v_pre and vp */
    real *d_w, *d_b, *d_proj; /* d_proj NULL: frozen */
    const real *d_out;
} Half;

static Half half_of(const Pass *pass, size_t l, bool keys) {
    const LayerParams *w = &pass->params->layers[l];
    const LayerActs *a = &pass->acts->layers[l];
    Half half =
        keys
            ? (Half){.w = w->k_w, .b = w->k_b, .proj = w->seq_proj_k, .pre = a->k_pre, .out = a->kp}
            : (Half){
                  .w = w->v_w, .b = w->v_b, .proj = w->seq_proj_v, .pre = a->v_pre, .out = a->vp};
    if (!pass->grads) return half;
    const LayerParams *g = &pass->grads->layers[l];
    bool frozen = pass->config->projection == PROJECTION_FIXED;
    half.d_w = keys ? g->k_w : g->v_w;
    half.d_b = keys ? g->k_b : g->v_b;
    half.d_proj = frozen ? NULL : keys ? g->seq_proj_k : g->seq_proj_v;
    half.d_out = keys ? pass->acts->d_kp : pass->acts->d_vp;
    return half;
}

/* out = (E x) w^T + (E 1) b^T, with E x already in `compressed` */
static void compress_first_forward(const Pass *pass, const Half *half, size_t P,
                                   const real *compressed) {
    const Batch *batch = pass->batch;
    size_t rows = batch->B * P, C = pass->config->width;
    real *row_sums = pass->acts->row_sums;
    linear_forward(half->out, compressed, half->w, NULL, rows, C, C, &pass->acts->mixed);
    seq_project_row_sums(row_sums, half->proj, batch->start, batch->B, P, pass->config->n);
    seq_project_bias_forward(half->out, row_sums, half->b, rows, C);
    lap_linear(pass->acts, PROFILE_QKV, rows, C, C, 1);
}

/* Gradients of w, b and of E through the bias; d_compressed (B*P,C) overwritten, or added to where
 * accumulate. */
static void compress_first_backward(const Pass *pass, const Half *half, size_t P,
                                    real *d_compressed, const real *compressed, int accumulate) {
    const Batch *batch = pass->batch;
    size_t rows = batch->B * P, C = pass->config->width, N = pass->config->n;
    real *row_sums = pass->acts->row_sums;
    linear_backward(d_compressed, half->d_w, NULL, half->d_out, compressed, half->w, rows, C, C,
                    accumulate, &pass->acts->mixed);
    seq_project_row_sums(row_sums, half->proj, batch->start, batch->B, P, N);
    seq_project_bias_backward(half->d_b, half->d_proj, half->d_out, row_sums, half->b, batch->start,
                              pass->acts->bias_scratch, batch->B, P, N, C);
    lap_linear(pass->acts, PROFILE_QKV, rows, C, C, 2);
}

/* Matrices of a projection: one shared by the heads, or one a head. */
size_t projected_kv_matrices(const ModelConfig *config) {
    return config->scope == SCOPE_HEAD ? config->heads : 1;
}

/* `products` of E or F with the rows of long sequences, each of which reads or writes all
 * matrices. */
static void lap_project(const Pass *pass, size_t P, size_t longer_than, int products) {
    const ModelConfig *config = pass->config;
    const Batch *batch = pass->batch;
    double C = (double)config->width, p = (double)P, total = 0, sequences = 0;
    for (size_t b = 0; b < batch->B; b++) {
        size_t T = batch->start[b + 1] - batch->start[b];
        if (T <= longer_than) continue;
        total += (double)T;
        sequences++;
    }
    double matrices = (double)(projected_kv_matrices(config) * config->n) * p;
    double bytes = (total * C + sequences * p * C + matrices) * sizeof(real);
    profile_lap(pass->acts->profile, PROFILE_SEQ_PROJECT, 2 * p * total * C * products,
                bytes * products);
}

/* The part of the batch in the order of short_attention.h has neither projected keys nor values;
 * compressing first leaves none to it, and longer_than is 0. */
static void project(const Pass *pass, real *y, const real *x, const real *proj, size_t P,
                    size_t longer_than) {
    const ModelConfig *config = pass->config;
    seq_project_forward(y, x, proj, P * config->n, pass->batch->start, pass->batch->B,
                        projected_kv_matrices(config), P, config->n, config->width, longer_than);
    lap_project(pass, P, longer_than, 1);
}

static void project_backward(const Pass *pass, real *d_x, const Half *half, const real *d_y,
                             const real *x, size_t P, size_t longer_than, int accumulate) {
    const ModelConfig *config = pass->config;
    seq_project_backward(d_x, half->d_proj, d_y, x, half->proj, P * config->n, pass->batch->start,
                         pass->batch->B, projected_kv_matrices(config), P, config->n, config->width,
                         longer_than, accumulate);
    lap_project(pass, P, longer_than, half->d_proj ? 2 : 1);
}

static void feature_forward(const Pass *pass, const Half *half, real *y, const real *x) {
    size_t C = pass->config->width, total = pass->batch->total;
    linear_forward(y, x, half->w, half->b, total, C, C, &pass->acts->mixed);
    lap_linear(pass->acts, PROFILE_QKV, total, C, C, 1);
}

/* Adds to d_x. */
static void feature_backward(const Pass *pass, const Half *half, real *d_x, const real *d_y,
                             const real *x) {
    size_t C = pass->config->width, total = pass->batch->total;
    linear_backward(d_x, half->d_w, half->d_b, d_y, x, half->w, total, C, C, 1, &pass->acts->mixed);
    lap_linear(pass->acts, PROFILE_QKV, total, C, C, 2);
}

void projected_kv_forward(const Pass *pass, size_t l, const real *x) {
    const ModelConfig *config = pass->config;
    if (model_pools(config)) {
        pooled_kv_forward(pass, l, x);
        return;
    }
    size_t total = pass->batch->total, P = config->k[l];
    Half keys = half_of(pass, l, true), values = half_of(pass, l, false);
    if (config->attention == ATTENTION_FULL) {
        feature_forward(pass, &keys, keys.out, x);
        feature_forward(pass, &values, values.out, x);
    } else if (layer_compresses_first(config, l, pass->batch->B, total)) {
        project(pass, keys.pre, x, keys.proj, P, 0);
        if (!config->tie_kv) project(pass, values.pre, x, values.proj, P, 0);
        compress_first_forward(pass, &keys, P, keys.pre);
        compress_first_forward(pass, &values, P, config->tie_kv ? keys.pre : values.pre);
    } else {
        size_t longer_than = attention_short_length(pass, l);
        feature_forward(pass, &keys, keys.pre, x);
        feature_forward(pass, &values, values.pre, x);
        project(pass, keys.out, keys.pre, keys.proj, P, longer_than);
        project(pass, values.out, values.pre, values.proj, P, longer_than);
    }
}

void projected_kv_backward(const Pass *pass, size_t l, real *d_x, const real *x, real *d_k,
                           real *d_v) {
    const ModelConfig *config = pass->config;
    if (model_pools(config)) {
        pooled_kv_backward(pass, l, d_x, x);
        return;
    }
    size_t total = pass->batch->total, P = config->k[l];
    Half keys = half_of(pass, l, true), values = half_of(pass, l, false);
    if (config->attention == ATTENTION_FULL) {
        feature_backward(pass, &keys, d_x, keys.d_out, x);
        feature_backward(pass, &values, d_x, values.d_out, x);
    } else if (layer_compresses_first(config, l, pass->batch->B, total)) {
        compress_first_backward(pass, &keys, P, d_k, keys.pre, 0);
        if (!config->tie_kv) {
            project_backward(pass, d_x, &keys, d_k, x, P, 0, 1);
            compress_first_backward(pass, &values, P, d_v, values.pre, 0);
            project_backward(pass, d_x, &values, d_v, x, P, 0, 1);
        } else { /* E = F: both gradients pass through one compression */
            compress_first_backward(pass, &values, P, d_k, keys.pre, 1);
            project_backward(pass, d_x, &keys, d_k, x, P, 0, 1);
        }
    } else {
        size_t longer_than = attention_short_length(pass, l);
        project_backward(pass, d_k, &keys, keys.d_out, keys.pre, P, longer_than, 0);
        feature_backward(pass, &keys, d_x, d_k, x);
        project_backward(pass, d_v, &values, values.d_out, values.pre, P, longer_than, 0);
        feature_backward(pass, &values, d_x, d_v, x);
    }
}
