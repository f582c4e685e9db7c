#include "encoder_layer.h"

#include "attention.h"
#include "dropout.h"
#include "encoder.h"
#include "gelu.h"
#include "laps.h"
#include "linear.h"
#include "projected_kv.h"

static double dropout_rate(const Pass *pass, double rate) {
    return pass->acts->mode == ACTS_TRAINING ? rate : 0;
}

/* Sizes of layer l's attention; fills acts->key_start. */
static AttentionShape attention_shape(const Pass *pass, size_t l) {
    const ModelConfig *config = pass->config;
    const Batch *batch = pass->batch;
    size_t *key_start = pass->acts->key_start;
    key_start[0] = 0;
    for (size_t b = 0; b < batch->B; b++)
        key_start[b + 1] =
            key_start[b] + encoder_key_rows(config, l, batch->start[b + 1] - batch->start[b]);
    return (AttentionShape){
        .B = batch->B,
        .H = config->heads,
        .D = config->width / config->heads,
        .start = batch->start,
        .key_start = key_start,
        .seq_key = batch->seq_key,
        .layer = l,
        .p = dropout_rate(pass, config->attention_dropout),
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

/* `products` of size queries x keys x width over all heads (two forward, five backward), which
 * read and write `arrays` of queries and as many of keys. */
static void lap_attention(const Pass *pass, const AttentionShape *shape, int products, int arrays) {
    const Batch *batch = pass->batch;
    double C = (double)pass->config->width, pairs = 0;
    for (size_t b = 0; b < batch->B; b++)
        pairs += (double)(shape->start[b + 1] - shape->start[b]) *
                 (double)(shape->key_start[b + 1] - shape->key_start[b]);
    double rows = (double)batch->total + (double)shape->key_start[batch->B];
    profile_lap(pass->acts->profile, PROFILE_ATTENTION, 2 * pairs * C * products,
                rows * C * arrays * sizeof(real));
}

static void attend(const Pass *pass, const LayerActs *a, const AttentionShape *shape) {
    const AttentionKernel *kernel = pass->acts->kernel;
    if (kernel)
        kernel->forward(kernel->context, a->att_out, a->q, a->kp, a->vp, shape);
    else
        attention_forward(a->att_out, a->lse, a->q, a->kp, a->vp, shape, pass->acts->attention);
    lap_attention(pass, shape, 2, 2);
}

static void attend_backward(const Pass *pass, const LayerActs *a, const AttentionShape *shape) {
    Activations *acts = pass->acts;
    const AttentionKernel *kernel = acts->kernel;
    if (kernel)
        kernel->backward(kernel->context, acts->d_q, acts->d_kp, acts->d_vp, acts->d_att, a->q,
                         a->kp, a->vp, shape);
    else
        attention_backward(acts->d_q, acts->d_kp, acts->d_vp, acts->d_att, a->q, a->kp, a->vp,
                           a->att_out, a->lse, shape, acts->attention);
    lap_attention(pass, shape, 5, 4);
}

void attention_block_forward(const Pass *pass, size_t l, real *sum, const real *x,
                             const real *residual) {
    const LayerParams *w = &pass->params->layers[l];
    const LayerActs *a = &pass->acts->layers[l];
    size_t total = pass->batch->total, C = pass->config->width;
    AttentionShape shape = attention_shape(pass, l);

    linear_forward(a->q, x, w->q_w, w->q_b, total, C, C);
    lap_linear(pass->acts, PROFILE_QKV, total, C, C, 1);
    projected_kv_forward(pass, l, x);
    attend(pass, a, &shape);
    linear_forward(sum, a->att_out, w->out_w, NULL, total, C, C);
    lap_linear(pass->acts, PROFILE_OUT, total, C, C, 1);
    add_residual(pass, l, SITE_ATTENTION, sum, residual, w->out_b);
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
                    C, 0);
    lap_linear(acts, PROFILE_OUT, total, C, C, 2);
    attend_backward(pass, a, &shape);
    linear_backward(d_x, g->q_w, g->q_b, acts->d_q, x, w->q_w, total, C, C, accumulate);
    lap_linear(acts, PROFILE_QKV, total, C, C, 2);
    projected_kv_backward(pass, l, d_x, x); /* d_branch is free by now */
}

void ffn_block_recompute(const Pass *pass, size_t l, const real *x) {
    const LayerParams *w = &pass->params->layers[l];
    size_t total = pass->batch->total, C = pass->config->width, FF = pass->config->ffn;
    linear_forward(pass->acts->layers[l].ff_pre, x, w->ff1_w, w->ff1_b, total, C, FF);
    lap_linear(pass->acts, PROFILE_FF1, total, C, FF, 1);
}

void ffn_block_forward(const Pass *pass, size_t l, real *sum, const real *x, const real *residual) {
    const LayerParams *w = &pass->params->layers[l];
    real *ff_pre = pass->acts->layers[l].ff_pre, *ff_act = pass->acts->ff_act;
    size_t total = pass->batch->total, C = pass->config->width, FF = pass->config->ffn;

    ffn_block_recompute(pass, l, x);
    gelu_forward(ff_act, ff_pre, total * FF);
    lap_elements(pass->acts, PROFILE_GELU, total * FF, 2);
    linear_forward(sum, ff_act, w->ff2_w, NULL, total, FF, C);
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
    linear_backward(acts->d_ff, NULL, g->ff2_b, acts->d_branch, NULL, w->ff2_w, total, FF, C, 0);
    lap_linear(acts, PROFILE_FF2, total, FF, C, 1);
    gelu_backward(acts->d_ff, acts->ff_act, acts->d_ff, ff_pre, total * FF); /* recomputes ff_act */
    lap_elements(acts, PROFILE_GELU, total * FF, 4);
    linear_backward(NULL, g->ff2_w, NULL, acts->d_branch, acts->ff_act, w->ff2_w, total, FF, C, 0);
    lap_linear(acts, PROFILE_FF2, total, FF, C, 1);
    linear_backward(d_x, g->ff1_w, g->ff1_b, acts->d_ff, x, w->ff1_w, total, C, FF, accumulate);
    lap_linear(acts, PROFILE_FF1, total, C, FF, 2);
}
