#include "encoder_layer.h"

#include "attention.h"
#include "dropout.h"
#include "gelu.h"
#include "laps.h"
#include "layer_keys.h"
#include "linear.h"
#include "projected_kv.h"
#include "short_attention.h"

static double dropout_rate(const Pass *pass, double rate) {
    return pass->acts->mode == ACTS_TRAINING ? rate : 0;
}

size_t attention_short_length(const Pass *pass, size_t l) {
    const Activations *acts = pass->acts;
    if (acts->kernel || acts->wants_keys) return 0;
    return layer_short_length(pass->config, l, pass->batch->B, pass->batch->total);
}

/* Sizes of layer l's attention; fills acts->key_start. */
static AttentionShape attention_shape(const Pass *pass, size_t l) {
    const ModelConfig *config = pass->config;
    const Batch *batch = pass->batch;
    size_t *key_start = pass->acts->key_start;
    key_start[0] = 0;
    for (size_t b = 0; b < batch->B; b++)
        key_start[b + 1] =
            key_start[b] + layer_key_rows(config, l, batch->start[b + 1] - batch->start[b]);
    return (AttentionShape){
        .B = batch->B,
        .H = config->heads,
        .D = config->width / config->heads,
        .start = batch->start,
        .key_start = key_start,
        .seq_key = batch->seq_key,
        .layer = l,
        .p = dropout_rate(pass, config->attention_dropout),
        .longer_than = attention_short_length(pass, l),
    };
}

/* The same of the short sequences, which attention_shape's leave out. */
static ShortShape short_shape(const Pass *pass, const AttentionShape *shape) {
    const ModelConfig *config = pass->config;
    size_t P = config->k[shape->layer];
    return (ShortShape){
        .B = shape->B,
        .H = shape->H,
        .D = shape->D,
        .P = P,
        .N = config->n,
        .G = projected_kv_matrices(config),
        .proj_stride = P * config->n,
        .longest = shape->longer_than,
        .start = shape->start,
        .seq_key = shape->seq_key,
        .layer = shape->layer,
        .p = shape->p,
    };
}

/* sum = residual + dropout(sum + bias), in place on the branch that stands in sum */
static void add_residual(const Pass *pass, size_t l, DropoutSite site, real *sum,
                         const real *residual, const real *bias) {
    const Batch *batch = pass->batch;
    residual_dropout_forward(sum, residual, sum, bias, batch->start, batch->seq_key, batch->B,
                             pass->config->width, l, site,
                             dropout_rate(pass, pass->config->dropout));
    lap_elements(pass->acts, PROFILE_DROPOUT, batch->total * pass->config->width, 3);
}

static void branch_backward(const Pass *pass, size_t l, DropoutSite site, real *d_branch,
                            const real *d_sum) {
    const Batch *batch = pass->batch;
    residual_dropout_backward(d_branch, d_sum, batch->start, batch->seq_key, batch->B,
                              pass->config->width, l, site,
                              dropout_rate(pass, pass->config->dropout));
    lap_elements(pass->acts, PROFILE_DROPOUT, batch->total * pass->config->width, 2);
}

/* Attention of all sequences, short and long: of the long ones `products` of size queries x keys x
 * width over all heads (two forward, five backward), which read and write `arrays` of queries and
 * as many of keys. */
static void lap_attention(const Pass *pass, const AttentionShape *shape, int products, int arrays) {
    bool trained = pass->config->projection != PROJECTION_FIXED;
    double C = (double)pass->config->width, operations = 0, rows = 0;
    for (size_t b = 0; b < shape->B; b++) {
        size_t T = shape->start[b + 1] - shape->start[b];
        size_t keys = shape->key_start[b + 1] - shape->key_start[b];
        if (T > shape->longer_than) {
            operations += 2 * (double)T * (double)keys * C * products;
            rows += (double)(T + keys);
        } else {
            operations +=
                2 * (double)shape->H *
                (products == 2 ? short_attention_forward_size(T, shape->D, keys)
                               : short_attention_backward_size(T, shape->D, keys, trained));
            rows += 2 * (double)T;
        }
    }
    profile_lap(pass->acts->profile, PROFILE_ATTENTION, operations,
                rows * C * arrays * sizeof(real));
}

/* att_out and lse of all sequences; each kernel leaves out what is the other's.  k, v: keys and
 * values of the short ones before the sequence projection. */
static void attend(const Pass *pass, const LayerParams *w, const LayerActs *a, const real *k,
                   const real *v, const AttentionShape *shape) {
    const AttentionKernel *kernel = pass->acts->kernel;
    ShortShape brief = short_shape(pass, shape);
    if (kernel)
        kernel->forward(kernel->context, a->att_out, a->q, a->kp, a->vp, shape);
    else
        attention_forward(a->att_out, a->lse, a->q, a->kp, a->vp, shape, pass->acts->attention);
    if (brief.longest > 0)
        short_attention_forward(a->att_out, a->lse, a->q, k, v, w->seq_proj_k, w->seq_proj_v,
                                &brief, pass->acts->attention);
    lap_attention(pass, shape, 2, 2);
}

/* Gradients of queries and projected keys and values; of short sequences of keys, values, E and F:
 * those of the values take the place of d_att. */
static void attend_backward(const Pass *pass, const LayerParams *w, const LayerParams *g,
                            const LayerActs *a, const AttentionShape *shape) {
    Activations *acts = pass->acts;
    const AttentionKernel *kernel = acts->kernel;
    ShortShape brief = short_shape(pass, shape);
    bool frozen = pass->config->projection == PROJECTION_FIXED;
    if (kernel)
        kernel->backward(kernel->context, acts->d_q, acts->d_kp, acts->d_vp, acts->d_att, a->q,
                         a->kp, a->vp, shape);
    else
        attention_backward(acts->d_q, acts->d_kp, acts->d_vp, acts->d_att, a->q, a->kp, a->vp,
                           a->att_out, a->lse, shape, acts->attention);
    if (brief.longest > 0)
        short_attention_backward(acts->d_q, acts->d_branch, acts->d_att,
                                 frozen ? NULL : g->seq_proj_k, frozen ? NULL : g->seq_proj_v,
                                 acts->d_att, a->q, a->k_pre, a->v_pre, w->seq_proj_k,
                                 w->seq_proj_v, a->att_out, a->lse, &brief, acts->attention);
    lap_attention(pass, shape, 5, 4);
}

AttentionShape attention_keys_forward(const Pass *pass, size_t l, const real *x) {
    AttentionShape shape = attention_shape(pass, l);
    projected_kv_forward(pass, l, x);
    return shape;
}

void attention_rows_forward(const Pass *pass, const AttentionShape *shape, size_t first_row,
                            real *sum, const real *x, const real *residual) {
    const LayerParams *w = &pass->params->layers[shape->layer];
    const LayerActs *a = &pass->acts->layers[shape->layer];
    size_t total = pass->batch->total, C = pass->config->width, before = first_row * C;

    linear_forward(a->q, x, w->q_w, w->q_b, total, C, C, &pass->acts->mixed);
    lap_linear(pass->acts, PROFILE_QKV, total, C, C, 1);
    attend(pass, w, a, shape->longer_than > 0 ? a->k_pre + before : NULL,
           shape->longer_than > 0 ? a->v_pre + before : NULL, shape);
    linear_forward(sum, a->att_out, w->out_w, NULL, total, C, C, &pass->acts->mixed);
    lap_linear(pass->acts, PROFILE_OUT, total, C, C, 1);
    add_residual(pass, shape->layer, SITE_ATTENTION, sum, residual, w->out_b);
}

void attention_block_forward(const Pass *pass, size_t l, real *sum, const real *x,
                             const real *residual) {
    AttentionShape shape = attention_keys_forward(pass, l, x);
    attention_rows_forward(pass, &shape, 0, sum, x, residual);
}

void attention_block_backward(const Pass *pass, size_t l, real *d_x, const real *d_sum,
                              const real *x, int accumulate) {
    const LayerParams *w = &pass->params->layers[l], *g = &pass->grads->layers[l];
    const LayerActs *a = &pass->acts->layers[l];
    Activations *acts = pass->acts;
    size_t total = pass->batch->total, C = pass->config->width;
    AttentionShape shape = attention_shape(pass, l);

    branch_backward(pass, l, SITE_ATTENTION, acts->d_branch, d_sum);
    linear_backward(acts->d_att, g->out_w, g->out_b, acts->d_branch, a->att_out, w->out_w, total, C,
                    C, 0, &pass->acts->mixed);
    lap_linear(acts, PROFILE_OUT, total, C, C, 2);
    attend_backward(pass, w, g, a, &shape); /* d_branch is free by now */
    linear_backward(d_x, g->q_w, g->q_b, acts->d_q, x, w->q_w, total, C, C, accumulate,
                    &acts->mixed);
    lap_linear(acts, PROFILE_QKV, total, C, C, 2);
    projected_kv_backward(pass, l, d_x, x, acts->d_branch, acts->d_att);
}

void ffn_block_recompute(const Pass *pass, size_t l, const real *x) {
    const LayerParams *w = &pass->params->layers[l];
    size_t total = pass->batch->total, C = pass->config->width, FF = pass->config->ffn;
    linear_forward(pass->acts->layers[l].ff_pre, x, w->ff1_w, w->ff1_b, total, C, FF,
                   &pass->acts->mixed);
    lap_linear(pass->acts, PROFILE_FF1, total, C, FF, 1);
}

void ffn_block_forward(const Pass *pass, size_t l, real *sum, const real *x, const real *residual) {
    const LayerParams *w = &pass->params->layers[l];
    real *ff_pre = pass->acts->layers[l].ff_pre, *ff_act = pass->acts->ff_act;
    size_t total = pass->batch->total, C = pass->config->width, FF = pass->config->ffn;

    ffn_block_recompute(pass, l, x);
    gelu_forward(ff_act, ff_pre, total * FF);
    lap_elements(pass->acts, PROFILE_GELU, total * FF, 2);
    linear_forward(sum, ff_act, w->ff2_w, NULL, total, FF, C, &pass->acts->mixed);
    lap_linear(pass->acts, PROFILE_FF2, total, FF, C, 1);
    add_residual(pass, l, SITE_FFN, sum, residual, w->ff2_b);
}

void ffn_block_backward(const Pass *pass, size_t l, real *d_x, const real *d_sum, const real *x,
                        int accumulate) {
    const LayerParams *w = &pass->params->layers[l], *g = &pass->grads->layers[l];
    Activations *acts = pass->acts;
    const real *ff_pre = acts->layers[l].ff_pre;
    size_t total = pass->batch->total, C = pass->config->width, FF = pass->config->ffn;

    branch_backward(pass, l, SITE_FFN, acts->d_branch, d_sum);
    linear_backward(acts->d_ff, NULL, g->ff2_b, acts->d_branch, NULL, w->ff2_w, total, FF, C, 0,
                    &pass->acts->mixed);
    lap_linear(acts, PROFILE_FF2, total, FF, C, 1);
    gelu_backward(acts->d_ff, acts->ff_act, acts->d_ff, ff_pre, total * FF); /* recomputes ff_act */
    lap_elements(acts, PROFILE_GELU, total * FF, 4);
    linear_backward(NULL, g->ff2_w, NULL, acts->d_branch, acts->ff_act, w->ff2_w, total, FF, C, 0,
                    &pass->acts->mixed);
    lap_linear(acts, PROFILE_FF2, total, FF, C, 1);
    linear_backward(d_x, g->ff1_w, g->ff1_b, acts->d_ff, x, w->ff1_w, total, C, FF, accumulate,
                    &pass->acts->mixed);
    lap_linear(acts, PROFILE_FF1, total, C, FF, 2);
}
