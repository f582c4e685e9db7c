#include "stored_attention.h"

#include <assert.h>
#include <math.h>

#include "dropout.h"
#include "gemm.h"
#include "parallel.h"
#include "vector_math.h"

/* Rows of probabilities under one dropout key, as attention.h has it. */
enum { MASK_ROWS = 1024 };

/* One head of one sequence. */
typedef struct Head {
    size_t query, key; /* element offsets of its first query and key */
    size_t T, keys;
    real *prob;        /* (T,keys) */
    real *scratch;     /* (T,keys) of this thread; NULL in inference */
    real scale;        /* 1/sqrt(D) */
    uint64_t mask_key; /* sequence, layer and site */
    size_t h;
} Head;

static Head head_at(const StoredAttention *stored, const AttentionShape *s, size_t unit) {
    size_t b = unit / s->H, C = s->H * s->D, square = stored->n * stored->n;
    size_t kept = (s->first_sequence * s->H + unit) * square; /* of this head's first query */
    Head head = {.h = unit % s->H,
                 .T = s->start[b + 1] - s->start[b],
                 .keys = s->key_start[b + 1] - s->key_start[b],
                 .scale = (real)(1 / sqrt((double)s->D)),
                 .prob = stored->probabilities + s->layer * stored->layer_reals + kept};
    head.query = s->start[b] * C + head.h * s->D;
    head.key = s->key_start[b] * C + head.h * s->D;
    if (b == 0) head.prob += s->first_query * head.keys;
    if (stored->scratch) head.scratch = stored->scratch + parallel_index() * square;
    if (s->p > 0) head.mask_key = dropout_key(s->seq_key[b], s->layer, SITE_PROBABILITIES);
    assert(s->first_query + head.T <= stored->n && head.keys <= stored->n);
    return head;
}

static bool worth_sharing(const AttentionShape *s) {
    double size = 0;
    for (size_t b = 0; b < s->B; b++)
        size += (double)(s->start[b + 1] - s->start[b]) *
                (double)(s->key_start[b + 1] - s->key_start[b]);
    return size * (double)(s->H * s->D) >= PARALLEL_MIN_MULTIPLY_ADDS;
}

static void softmax_row(real *restrict x, size_t count) {
    real max = x[0], sum = 0;
#pragma omp simd reduction(max : max)
    for (size_t j = 0; j < count; j++) max = x[j] > max ? x[j] : max;
#pragma omp simd reduction(+ : sum)
    for (size_t j = 0; j < count; j++) {
        x[j] = exp_real(x[j] - max);
        sum += x[j];
    }
    const real factor = 1 / sum;
#pragma omp simd
    for (size_t j = 0; j < count; j++) x[j] *= factor;
}

/* Dropout of one row of probabilities: factor j is that of element first + j under `key`. */
typedef struct RowMask {
    uint64_t key;
    uint32_t first, threshold;
    real scale;
} RowMask;

static RowMask mask_of_row(const Head *head, size_t t, double p) {
    return (RowMask){.key = rng_key(head->mask_key, RNG_DROPOUT, head->h, t / MASK_ROWS),
                     .first = (uint32_t)(t % MASK_ROWS * head->keys),
                     .threshold = dropout_threshold(p),
                     .scale = (real)(1 / (1 - p))};
}

/* The probabilities after dropout: in the scratch, or as they are where nothing is dropped. */
static const real *drop_out(const Head *head, double p) {
    if (p == 0) return head->prob;
    for (size_t t = 0; t < head->T; t++) {
        const RowMask mask = mask_of_row(head, t, p);
        const real *restrict x = head->prob + t * head->keys;
        real *restrict y = head->scratch + t * head->keys;
#pragma omp simd
        for (size_t j = 0; j < head->keys; j++)
            y[j] = x[j] *
                   dropout_factor(mask.key, mask.first + (uint32_t)j, mask.threshold, mask.scale);
    }
    return head->scratch;
}

static void forward(void *context, real *out, const real *q, const real *k, const real *v,
                    const AttentionShape *s) {
    const StoredAttention *stored = context;
    size_t C = s->H * s->D;
    const bool shared = worth_sharing(s);
    (void)shared; /* read by the pragma only */
    assert(s->p == 0 || stored->scratch);
#pragma omp parallel for schedule(dynamic) if (shared)
    for (size_t unit = 0; unit < s->B * s->H; unit++) {
        const Head head = head_at(stored, s, unit);
        gemm(head.prob, head.keys, NO_TRANS, q + head.query, C, TRANS, k + head.key, C, head.T,
             head.keys, s->D, head.scale, 0);
        for (size_t t = 0; t < head.T; t++) softmax_row(head.prob + t * head.keys, head.keys);
        gemm(out + head.query, C, NO_TRANS, drop_out(&head, s->p), head.keys, NO_TRANS,
             v + head.key, C, head.T, s->D, head.keys, 1, 0);
    }
}

/* From d = gradient of the dropped-out probabilities to that of the scores. */
static void softmax_backward(const Head *head, double p) {
    for (size_t t = 0; t < head->T; t++) {
        const real *restrict x = head->prob + t * head->keys;
        real *restrict d = head->scratch + t * head->keys, dot = 0;
        if (p > 0) {
            const RowMask mask = mask_of_row(head, t, p);
#pragma omp simd
            for (size_t j = 0; j < head->keys; j++)
                d[j] *=
                    dropout_factor(mask.key, mask.first + (uint32_t)j, mask.threshold, mask.scale);
        }
#pragma omp simd reduction(+ : dot)
        for (size_t j = 0; j < head->keys; j++) dot += x[j] * d[j];
#pragma omp simd
        for (size_t j = 0; j < head->keys; j++) d[j] = x[j] * (d[j] - dot);
    }
}

static void backward(void *context, real *d_q, real *d_k, real *d_v, const real *d_out,
                     const real *q, const real *k, const real *v, const AttentionShape *s) {
    const StoredAttention *stored = context;
    size_t C = s->H * s->D;
    const bool shared = worth_sharing(s);
    (void)shared;
    assert(stored->scratch);
#pragma omp parallel for schedule(dynamic) if (shared)
    for (size_t unit = 0; unit < s->B * s->H; unit++) {
        const Head head = head_at(stored, s, unit);
        size_t T = head.T, keys = head.keys;
        gemm(d_v + head.key, C, TRANS, drop_out(&head, s->p), keys, NO_TRANS, d_out + head.query, C,
             keys, s->D, T, 1, 0);
        gemm(head.scratch, keys, NO_TRANS, d_out + head.query, C, TRANS, v + head.key, C, T, keys,
             s->D, 1, 0);
        softmax_backward(&head, s->p);
        gemm(d_q + head.query, C, NO_TRANS, head.scratch, keys, NO_TRANS, k + head.key, C, T, s->D,
             keys, head.scale, 0);
        gemm(d_k + head.key, C, TRANS, head.scratch, keys, NO_TRANS, q + head.query, C, keys, s->D,
             T, head.scale, 0);
    }
}

/* a * b * c into *out; false on overflow. */
static bool multiply(size_t *out, size_t a, size_t b, size_t c) {
    size_t ab;
    return size_mul(a, b, &ab) && size_mul(ab, c, out);
}

/* Reals of one layer, and of the scratch. */
static bool count_reals(size_t *layer, size_t *scratch, const ModelConfig *config, size_t B,
                        ActMode mode) {
    size_t square, threads = mode == ACTS_TRAINING ? parallel_max_threads() : 0;
    return size_mul(config->n, config->n, &square) && multiply(layer, square, B, config->heads) &&
           size_mul(square, threads, scratch);
}

static size_t kept_layers(const ModelConfig *config, ActMode mode) {
    return mode == ACTS_TRAINING ? config->layers : 1;
}

/* Runs twice: counting, then placing. */
static bool layout(StoredAttention *out, Arena *arena, const ModelConfig *config, size_t B,
                   ActMode mode) {
    size_t layer, scratch, all;
    if (!count_reals(&layer, &scratch, config, B, mode) ||
        !size_mul(layer, kept_layers(config, mode), &all))
        return false;
    out->layer_reals = mode == ACTS_TRAINING ? layer : 0;
    out->probabilities = arena_take(arena, all, sizeof(real));
    if (scratch > 0) out->scratch = arena_take(arena, scratch, sizeof(real));
    return !arena->overflow;
}

bool stored_attention_bytes(size_t *out, const ModelConfig *config, size_t B, ActMode mode) {
    StoredAttention unused = {0};
    Arena counting = {0};
    if (!layout(&unused, &counting, config, B, mode)) return false;
    *out = counting.used;
    return true;
}

bool stored_attention_create(StoredAttention *out, const ModelConfig *config, size_t B,
                             ActMode mode, Err *err) {
    size_t bytes;
    *out = (StoredAttention){.n = config->n};
    out->kernel = (AttentionKernel){.forward = forward, .backward = backward, .context = out};
    if (!stored_attention_bytes(&bytes, config, B, mode))
        return err_set(err, ERR_CONFIG,
                       "attention probabilities of %zu sequences of %zu tokens do not fit the "
                       "address space",
                       B, config->n);
    if (!arena_create(&out->arena, bytes, err)) return err_context(err, "attention probabilities");
    return layout(out, &out->arena, config, B, mode);
}

void stored_attention_destroy(StoredAttention *stored) {
    arena_destroy(&stored->arena);
    *stored = (StoredAttention){0};
}
