#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "attention.h"
#include "bench.h"
#include "bench_measure.h"
#include "clock.h"
#include "cross_entropy.h"
#include "dropout.h"
#include "embedding.h"
#include "gelu.h"
#include "layernorm.h"
#include "linear.h"
#include "optimizer.h"
#include "params.h"
#include "pool_project.h"
#include "rng.h"
#include "seq_project.h"

enum { MASKED = 256, REAL = sizeof(real) };

static const double SECONDS = 0.15;

/* Sizes of one model and batch, and every array a kernel may want. */
typedef struct Work {
    const char *model;
    size_t B, N, P, C, H, FF, V, total;
    Arena arena;
    size_t *start, *key_start;
    uint64_t *seq_key;
    uint32_t *ids, *labels;
    real *x, *y, *d;             /* (total,C) */
    real *q, *out, *lse;         /* (total,C), (total,C), (total,H) */
    real *kp, *vp, *d_kp, *d_vp; /* (B*P,C) */
    real *ff, *ff2, *ff3, *d_ff; /* (total,FF) */
    real *logits, *loss;         /* (MASKED,V), (MASKED) */
    real *w, *d_w;               /* (V,C): the largest weight; others use its beginning */
    real *bias, *d_bias;         /* (V) */
    real *proj, *d_proj;         /* (P,N) */
    real *mean, *rstd;           /* (total) */
    real *position, *d_position; /* (N,C) */
    real *attention, *norm;      /* scratch */
    real *moments;               /* 4 * (V,C): weights, both moments and gradients of one tensor */
    AttentionShape shape;
    PoolShape pool;   /* windows of N/P tokens */
    ParamTable table; /* of that tensor */
    Tensor tensor;
} Work;

static real *take(Arena *arena, size_t rows, size_t cols) {
    return arena_take(arena, rows * cols, REAL);
}

static void layout(Work *w, Arena *arena) {
    size_t keys = w->B * w->P;
    w->start = arena_take(arena, w->B + 1, sizeof *w->start);
    w->key_start = arena_take(arena, w->B + 1, sizeof *w->key_start);
    w->seq_key = arena_take(arena, w->B, sizeof *w->seq_key);
    w->ids = arena_take(arena, w->total, sizeof *w->ids);
    w->labels = arena_take(arena, MASKED, sizeof *w->labels);
    real **const rows_c[] = {&w->x, &w->y, &w->d, &w->q, &w->out};
    for (size_t i = 0; i < sizeof rows_c / sizeof *rows_c; i++)
        *rows_c[i] = take(arena, w->total, w->C);
    real **const keys_c[] = {&w->kp, &w->vp, &w->d_kp, &w->d_vp};
    for (size_t i = 0; i < sizeof keys_c / sizeof *keys_c; i++)
        *keys_c[i] = take(arena, keys, w->C);
    real **const rows_ff[] = {&w->ff, &w->ff2, &w->ff3, &w->d_ff};
    for (size_t i = 0; i < sizeof rows_ff / sizeof *rows_ff; i++)
        *rows_ff[i] = take(arena, w->total, w->FF);
    w->lse = take(arena, w->total, w->H);
    w->logits = take(arena, MASKED, w->V);
    w->loss = take(arena, MASKED, 1);
    w->w = take(arena, w->V, w->C);
    w->d_w = take(arena, w->V, w->C);
    w->bias = take(arena, w->V, 1);
    w->d_bias = take(arena, w->V, 1);
    w->proj = take(arena, w->P, w->N);
    w->d_proj = take(arena, w->P, w->N);
    w->mean = take(arena, w->total, 1);
    w->rstd = take(arena, w->total, 1);
    w->position = take(arena, w->N, w->C);
    w->d_position = take(arena, w->N, w->C);
    w->attention = take(arena, attention_scratch(), 1);
    w->norm = take(arena, layernorm_scratch(w->C), 1);
    w->moments = take(arena, 4 * w->V, w->C);
}

static void fill(real *x, size_t count, double scale) {
    uint64_t key = rng_key(1, RNG_TEST, count, 0);
    for (size_t i = 0; i < count; i++) x[i] = (real)(scale * (2 * rng_uniform(key, i) - 1));
}

static bool work_create(Work *w, Err *err) {
    w->total = w->B * w->N;
    Arena counting = {0};
    layout(w, &counting);
    if (!arena_create(&w->arena, counting.used, err))
        return err_context(err, "arrays of the benchmark");
    layout(w, &w->arena);
    for (size_t b = 0; b <= w->B; b++) w->start[b] = b * w->N, w->key_start[b] = b * w->P;
    for (size_t i = 0; i < w->total; i++) w->ids[i] = (uint32_t)rng_below(2, i, w->V);
    for (size_t i = 0; i < MASKED; i++) w->labels[i] = (uint32_t)rng_below(3, i, w->V);
    for (size_t b = 0; b < w->B; b++) w->seq_key[b] = rng_u64(4, b);
    fill(w->x, w->total * w->C, 1);
    fill(w->d, w->total * w->C, 1);
    fill(w->q, w->total * w->C, 1);
    fill(w->kp, w->B * w->P * w->C, 1);
    fill(w->vp, w->B * w->P * w->C, 1);
    fill(w->ff, w->total * w->FF, 1);
    fill(w->d_ff, w->total * w->FF, 1);
    fill(w->logits, MASKED * w->V, 1);
    fill(w->w, w->V * w->C, 0.02);
    /* weights and first moments; the second stay 0: they are squares */
    fill(w->moments, 2 * w->V * w->C, 1);
    fill(w->moments + 3 * w->V * w->C, w->V * w->C, 1);
    fill(w->proj, w->P * w->N, 0.05);
    w->shape = (AttentionShape){.B = w->B,
                                .H = w->H,
                                .D = w->C / w->H,
                                .start = w->start,
                                .key_start = w->key_start,
                                .seq_key = w->seq_key,
                                .p = 0};
    w->pool = (PoolShape){w->B, w->P, w->N, w->C, w->start, w->key_start};
    w->tensor =
        (Tensor){.name = "token", .rows = w->V, .cols = w->C, .count = w->V * w->C, .matrix = true};
    w->table = (ParamTable){.items = &w->tensor,
                            .count = 1,
                            .block_reals = w->V * w->C,
                            .parameters = w->V * w->C,
                            .trainable = w->V * w->C};
    return true;
}

/* ---- the kernels, each on the arrays of a Work */

static void run_square_forward(void *p) {
    Work *w = p;
    linear_forward(w->y, w->x, w->w, w->bias, w->total, w->C, w->C, NULL);
}
static void run_square_backward(void *p) {
    Work *w = p;
    linear_backward(w->y, w->d_w, w->d_bias, w->d, w->x, w->w, w->total, w->C, w->C, 0, NULL);
}
static void run_keys_forward(void *p) {
    Work *w = p;
    linear_forward(w->d_kp, w->kp, w->w, NULL, w->B * w->P, w->C, w->C, NULL);
}
static void run_keys_backward(void *p) {
    Work *w = p;
    linear_backward(w->d_kp, w->d_w, NULL, w->vp, w->kp, w->w, w->B * w->P, w->C, w->C, 0, NULL);
}
static void run_ff1_forward(void *p) {
    Work *w = p;
    linear_forward(w->ff2, w->x, w->w, w->bias, w->total, w->C, w->FF, NULL);
}
static void run_ff1_backward(void *p) {
    Work *w = p;
    linear_backward(w->y, w->d_w, w->d_bias, w->d_ff, w->x, w->w, w->total, w->C, w->FF, 0, NULL);
}
static void run_ff2_forward(void *p) {
    Work *w = p;
    linear_forward(w->y, w->ff, w->w, NULL, w->total, w->FF, w->C, NULL);
}
static void run_ff2_backward(void *p) {
    Work *w = p;
    linear_backward(w->ff2, w->d_w, w->d_bias, w->d, w->ff, w->w, w->total, w->FF, w->C, 0, NULL);
}
static void run_decoder_forward(void *p) {
    Work *w = p;
    linear_forward(w->logits, w->x, w->w, w->bias, MASKED, w->C, w->V, NULL);
}
static void run_decoder_backward(void *p) {
    Work *w = p;
    linear_backward(w->y, w->d_w, w->d_bias, w->logits, w->x, w->w, MASKED, w->C, w->V, 0, NULL);
}
static void run_project_forward(void *p) {
    Work *w = p;
    seq_project_forward(w->d_kp, w->x, w->proj, w->P * w->N, w->start, w->B, 1, w->P, w->N, w->C,
                        0);
}
static void run_project_backward(void *p) {
    Work *w = p;
    seq_project_backward(w->y, w->d_proj, w->kp, w->x, w->proj, w->P * w->N, w->start, w->B, 1,
                         w->P, w->N, w->C, 0, 0);
}
/* The matrices of the heads lie in w->w, which is large enough. */
static void run_project_heads(void *p) {
    Work *w = p;
    seq_project_forward(w->d_kp, w->x, w->w, w->P * w->N, w->start, w->B, w->H, w->P, w->N, w->C,
                        0);
}
static void run_mean_forward(void *p) {
    Work *w = p;
    pool_mean_forward(w->d_kp, w->x, &w->pool);
}
static void run_mean_backward(void *p) {
    Work *w = p;
    pool_mean_backward(w->y, w->kp, &w->pool);
}
static void run_max_forward(void *p) {
    Work *w = p;
    pool_max_forward(w->d_kp, w->x, &w->pool);
}
/* d_kp: the maxima, as run_max_forward leaves them. */
static void run_max_backward(void *p) {
    Work *w = p;
    pool_max_backward(w->y, w->kp, w->x, w->d_kp, &w->pool);
}
/* The taps of the heads are few; w->w is large enough. */
static void run_conv_forward(void *p) {
    Work *w = p;
    pool_conv_forward(w->d_kp, w->x, w->w, 0, w->H, &w->pool);
}
static void run_conv_backward(void *p) {
    Work *w = p;
    pool_conv_backward(w->y, w->d_w, w->kp, w->x, w->w, 0, w->H, &w->pool);
}
static void run_attention_forward(void *p) {
    Work *w = p;
    attention_forward(w->out, w->lse, w->q, w->kp, w->vp, &w->shape, w->attention);
}
static void run_attention_backward(void *p) {
    Work *w = p;
    attention_backward(w->y, w->d_kp, w->d_vp, w->d, w->q, w->kp, w->vp, w->out, w->lse, &w->shape,
                       w->attention);
}
static void run_norm_forward(void *p) {
    Work *w = p;
    layernorm_forward(w->y, w->mean, w->rstd, w->x, w->bias, w->bias, w->total, w->C);
}
static void run_norm_backward(void *p) {
    Work *w = p;
    layernorm_backward(w->y, w->d_bias, w->d_bias + w->C, w->d, w->x, w->bias, w->mean, w->rstd,
                       w->norm, w->total, w->C, 0);
}
static void run_gelu_forward(void *p) {
    Work *w = p;
    gelu_forward(w->ff2, w->ff, w->total * w->FF);
}
static void run_gelu_backward(void *p) {
    Work *w = p;
    gelu_backward(w->ff2, w->ff3, w->d_ff, w->ff, w->total * w->FF);
}
static void run_dropout(void *p) {
    Work *w = p;
    residual_dropout_forward(w->y, w->x, w->d, w->bias, w->start, w->seq_key, w->B, w->C, 0,
                             SITE_FFN, 0.1);
}
/* The gradient takes the place of the logits, and is as good for the next call. */
static void run_cross_entropy(void *p) {
    Work *w = p;
    cross_entropy(w->loss, w->logits, w->labels, MASKED, w->V, (real)1e-6);
}
static void run_embedding_forward(void *p) {
    Work *w = p;
    embedding_forward(w->y, w->w, w->position, w->ids, w->start, w->B, w->C);
}
static void run_embedding_backward(void *p) {
    Work *w = p;
    embedding_backward(w->d_w, w->d_position, w->d, w->ids, w->start, w->B, w->C);
}
static void run_adamw(void *p) {
    Work *w = p;
    static const OptimizerConfig adamw = {.position_lr = 1,
                                          .proj_lr = 1,
                                          .name = OPTIMIZER_ADAMW,
                                          .lr = 1e-4,
                                          .betas = {0.9, 0.98},
                                          .eps = 1e-6,
                                          .weight_decay = 0.01};
    size_t count = w->table.block_reals;
    optimizer_step(w->moments, w->moments + count, w->moments + 2 * count, w->moments + 3 * count,
                   &w->table, &adamw, adamw.lr, 1, 100);
}

/* ---- the table */

typedef enum Unit { FLOPS, BYTES } Unit;

/* Operations (multiply and add: 2) or bytes of a call, by the sizes of a Work. */
typedef double Amount(const Work *w);

static double square_flops(const Work *w) {
    return 2.0 * (double)w->total * (double)w->C * (double)w->C;
}
static double keys_flops(const Work *w) {
    return 2.0 * (double)(w->B * w->P) * (double)w->C * (double)w->C;
}
static double ff_flops(const Work *w) {
    return 2.0 * (double)w->total * (double)w->C * (double)w->FF;
}
static double decoder_flops(const Work *w) {
    return 2.0 * MASKED * (double)w->C * (double)w->V;
}
static double rows_flops(const Work *w) {
    return 2.0 * (double)w->total * (double)w->P * (double)w->C;
} /* P keys a row */
static double rows_bytes(const Work *w) {
    return (double)w->total * (double)w->C * REAL;
}
/* Tokens and windows once. */
static double pool_bytes(const Work *w) {
    return (double)(w->total + w->B * w->P) * (double)w->C * REAL;
}
static double ff_bytes(const Work *w) {
    return (double)w->total * (double)w->FF * REAL;
}
static double logits_bytes(const Work *w) {
    return MASKED * (double)w->V * REAL;
}
static double weight_bytes(const Work *w) {
    return (double)w->V * (double)w->C * REAL;
}

typedef struct Case {
    const char *name;
    const char *shape; /* letters stand for sizes */
    void (*run)(void *work);
    Unit unit;
    double times; /* products of `amount`, or passes over it */
    Amount *amount;
} Case;

static const Case cases[] = {
    {"query/output map forward", "total x C x C", run_square_forward, FLOPS, 1, square_flops},
    {"query/output map backward", "total x C x C, 2 products", run_square_backward, FLOPS, 2,
     square_flops},
    {"key/value map forward", "B*P x C x C", run_keys_forward, FLOPS, 1, keys_flops},
    {"key/value map backward", "B*P x C x C, 2 products", run_keys_backward, FLOPS, 2, keys_flops},
    {"feed-forward 1 forward", "total x FF x C", run_ff1_forward, FLOPS, 1, ff_flops},
    {"feed-forward 1 backward", "total x FF x C, 2 products", run_ff1_backward, FLOPS, 2, ff_flops},
    {"feed-forward 2 forward", "total x C x FF", run_ff2_forward, FLOPS, 1, ff_flops},
    {"feed-forward 2 backward", "total x C x FF, 2 products", run_ff2_backward, FLOPS, 2, ff_flops},
    {"decoder forward", "256 x V x C", run_decoder_forward, FLOPS, 1, decoder_flops},
    {"decoder backward", "256 x V x C, 2 products", run_decoder_backward, FLOPS, 2, decoder_flops},
    {"sequence projection forward", "B of P x N x C", run_project_forward, FLOPS, 1, rows_flops},
    {"sequence projection backward", "B of P x N x C, 2 products", run_project_backward, FLOPS, 2,
     rows_flops},
    {"sequence projection per head", "B*H of P x N x D", run_project_heads, FLOPS, 1, rows_flops},
    {"mean of windows forward", "total x C to B*P x C", run_mean_forward, BYTES, 1, pool_bytes},
    {"mean of windows backward", "total x C, 1 read, 1 write", run_mean_backward, BYTES, 2,
     rows_bytes},
    {"max of windows forward", "total x C to B*P x C", run_max_forward, BYTES, 1, pool_bytes},
    {"max of windows backward", "total x C, 1 read, 1 write", run_max_backward, BYTES, 2,
     rows_bytes},
    {"convolution forward", "total x C to B*P x C", run_conv_forward, BYTES, 1, pool_bytes},
    {"convolution backward", "total x C, 1 read, 1 write", run_conv_backward, BYTES, 2, rows_bytes},
    {"attention forward", "B*H of N x P x D, 2 products", run_attention_forward, FLOPS, 2,
     rows_flops},
    {"attention backward", "B*H of N x P x D, 5 products", run_attention_backward, FLOPS, 5,
     rows_flops},
    {"LayerNorm forward", "total x C, 1 read, 1 write", run_norm_forward, BYTES, 2, rows_bytes},
    {"LayerNorm backward", "total x C, 2 reads, 1 write", run_norm_backward, BYTES, 3, rows_bytes},
    {"GELU forward", "total x FF, 1 read, 1 write", run_gelu_forward, BYTES, 2, ff_bytes},
    {"GELU backward", "total x FF, 2 reads, 2 writes", run_gelu_backward, BYTES, 4, ff_bytes},
    {"residual + dropout", "total x C, 2 reads, 1 write", run_dropout, BYTES, 3, rows_bytes},
    {"cross-entropy", "256 x V, 1 read, 1 write", run_cross_entropy, BYTES, 2, logits_bytes},
    {"embedding forward", "total x C, 2 reads, 1 write", run_embedding_forward, BYTES, 3,
     rows_bytes},
    {"embedding backward", "total x C, 2 reads, 1 write", run_embedding_backward, BYTES, 3,
     rows_bytes},
    {"AdamW", "V x C, 4 reads, 3 writes", run_adamw, BYTES, 7, weight_bytes},
};
enum { CASES = sizeof cases / sizeof *cases };

static BenchKernel measure(const Case *c, Work *w) {
    BenchKernel kernel = {.seconds = bench_measure(c->run, w, SECONDS)};
    snprintf(kernel.model, sizeof kernel.model, "%s", w->model);
    snprintf(kernel.name, sizeof kernel.name, "%s", c->name);
    snprintf(kernel.shape, sizeof kernel.shape, "%s", c->shape);
    double rate = c->times * c->amount(w) / kernel.seconds / 1e9;
    *(c->unit == FLOPS ? &kernel.gflops : &kernel.gbytes) = rate;
    return kernel;
}

static bool measure_model(BenchKernels *out, const Work *size, Err *err) {
    Work work = *size;
    if (!work_create(&work, err)) return false;
    for (size_t c = 0; c < CASES; c++) out->items[out->count++] = measure(&cases[c], &work);
    arena_destroy(&work.arena);
    return true;
}

bool bench_kernels(BenchKernels *out, Err *err) {
    static const Work sizes[] = {
        {.model = "base", .B = 8, .N = 512, .P = 128, .C = 768, .H = 12, .FF = 3072, .V = 32000},
        {.model = "small", .B = 16, .N = 512, .P = 128, .C = 256, .H = 4, .FF = 1024, .V = 8192},
    };
    const size_t models = sizeof sizes / sizeof *sizes;
    *out = (BenchKernels){.items = calloc(models * CASES, sizeof *out->items)};
    if (!out->items) return err_set(err, ERR_FAILED, "out of memory for the results");
    double start = clock_now_s(), cpu = bench_cpu_time();
    bool ok = bench_gemm_peak(&out->gemm_peak, BENCH_PEAK_SIZE, 1, err);
    if (ok) {
        out->cpu_share =
            (bench_cpu_time() - cpu) / (clock_now_s() - start) / (double)bench_threads();
        out->fma_peak = bench_fma_peak(0.3);
        out->bf16_peak = bench_bf16_peak(0.3);
    }
    for (size_t m = 0; ok && m < models; m++) ok = measure_model(out, &sizes[m], err);
    if (!ok) bench_kernels_free(out);
    return ok;
}

void bench_kernels_free(BenchKernels *kernels) {
    free(kernels->items);
    *kernels = (BenchKernels){0};
}
