#include "attention.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "dropout.h"
#include "parallel.h"
#include "small_gemm.h"
#include "vector_math.h"

/* A block of scores and the operands that make it stay in a 1 MiB second-level cache.  Blocks lie
 * transposed, a row a key and a column a query: maximum and sum over the keys then run down the
 * columns, a vector of queries at a time, with no sum across a vector, and of the factors of the
 * products only the queries of a block have to be transposed, once for all keys. */
enum { QUERY_BLOCK = 64, KEY_BLOCK = 256 };

/* Queries of one vector loop: a fixed count, that the compiler turns into whole vectors.  Columns
 * past the last query hold garbage and are computed along. */
enum { LANES = 16 };
_Static_assert(QUERY_BLOCK % LANES == 0, "vectors of queries do not leave the block");

/* Partial sums of a column, over every fourth key: they round less, and do not wait for one
 * another. */
enum { PARTS = 4 };

/* Rows of probabilities under one dropout key: their element indices fit 32 bits below 2^22 keys.
 * Fixed for good, unlike the block sizes, which it must be a multiple of: a resumed run draws the
 * masks of the unbroken one. */
enum { MASK_ROWS = 1024 };
_Static_assert(MASK_ROWS % QUERY_BLOCK == 0, "a block of queries has one dropout key");

/* Columns of a head that are transposed at a time. */
enum { WIDTH_BLOCK = 64 };

/* Scratch of one thread: two blocks of scores, two numbers a query, transposed queries. */
enum { THREAD_SCRATCH = 2 * QUERY_BLOCK * KEY_BLOCK + 2 * QUERY_BLOCK + WIDTH_BLOCK * QUERY_BLOCK };

/* One head of one sequence. */
typedef struct Head {
    size_t query,
        key;        /* element offset of its first row and column in (total,C) and (total_keys,C) */
    size_t T, keys; /* rows of each */
    size_t row, h;  /* first row of the sequence, number of the head: where lse is */
    size_t key_block;  /* keys a block */
    real scale;        /* 1/sqrt(D) */
    uint64_t mask_key; /* sequence and layer */
} Head;

/* Dropout of the probabilities of one block; threshold 0 keeps all. */
typedef struct Mask {
    uint64_t key;
    uint32_t first; /* index of the block's first query and key */
    uint32_t keys;  /* from query to query */
    uint32_t threshold;
    real scale;
} Mask;

static Head head_at(const AttentionShape *s, size_t b, size_t h) {
    size_t C = s->H * s->D;
    Head head = {0};
    head.row = s->start[b];
    head.h = h;
    head.query = s->start[b] * C + h * s->D;
    head.key = s->key_start[b] * C + h * s->D;
    head.T = s->start[b + 1] - s->start[b];
    head.keys = s->key_start[b + 1] - s->key_start[b];
    size_t blocks = (head.keys + KEY_BLOCK - 1) / KEY_BLOCK;
    head.key_block = (head.keys + blocks - 1) / blocks;
    head.key_block = (head.key_block + PARALLEL_ALIGN - 1) / PARALLEL_ALIGN * PARALLEL_ALIGN;
    head.scale = (real)(1 / sqrt((double)s->D));
    if (s->p > 0) head.mask_key = dropout_key(s->seq_key[b], s->layer, SITE_PROBABILITIES);
    assert(s->p == 0 || head.keys < ((size_t)1 << 22));
    return head;
}

/* Whether the multiply-adds of q k^T, all heads, are worth waking the team. */
static bool worth_sharing(const AttentionShape *s) {
    size_t size = 0;
    for (size_t b = 0; b < s->B; b++) {
        size_t T = s->start[b + 1] - s->start[b];
        if (T > s->longer_than) size += T * (s->key_start[b + 1] - s->key_start[b]) * s->H * s->D;
    }
    return size >= PARALLEL_MIN_MULTIPLY_ADDS;
}

/* Mask of the score block that begins at (t, j) of the head. */
static Mask mask_at(const AttentionShape *s, const Head *head, size_t t, size_t j) {
    Mask mask = {0};
    if (s->p == 0) return mask;
    mask.key = rng_key(head->mask_key, RNG_DROPOUT, head->h, t / MASK_ROWS);
    mask.first = (uint32_t)(t % MASK_ROWS * head->keys + j);
    mask.keys = (uint32_t)head->keys;
    mask.threshold = dropout_threshold(s->p);
    mask.scale = (real)(1 / (1 - s->p));
    return mask;
}

static size_t smaller(size_t a, size_t b) {
    return a < b ? a : b;
}

/* max = the larger of max and the maximum of each column. */
static void column_max(real *restrict max, const real *restrict scores, size_t keys) {
    for (size_t j = 0; j < keys; j++) {
        const real *restrict s = scores + j * QUERY_BLOCK;
#pragma omp simd
        for (size_t i = 0; i < LANES; i++) max[i] = s[i] > max[i] ? s[i] : max[i];
    }
}

/* scores = exp(scores - max), dropped out; sum is increased by the sums before dropout.  first:
 * mask index of column 0. */
static void column_exp(real *restrict scores, real *restrict sum, const real *restrict max,
                       size_t keys, const Mask *mask, uint32_t first) {
    uint64_t key = mask->key;
    uint32_t stride = mask->keys, threshold = mask->threshold;
    real scale = mask->scale, parts[PARTS * LANES] = {0};
    for (size_t j = 0; j < keys; j++) {
        real *restrict s = scores + j * QUERY_BLOCK, *restrict part = parts + j % PARTS * LANES;
        if (threshold == 0) {
#pragma omp simd
            for (size_t i = 0; i < LANES; i++) {
                s[i] = exp_real(s[i] - max[i]);
                part[i] += s[i];
            }
        } else {
            uint32_t index = first + (uint32_t)j;
#pragma omp simd
            for (size_t i = 0; i < LANES; i++) {
                real e = exp_real(s[i] - max[i]);
                part[i] += e;
                s[i] = e * dropout_factor(key, index + (uint32_t)i * stride, threshold, scale);
            }
        }
    }
    for (size_t p = 0; p < PARTS; p++) {
        for (size_t i = 0; i < LANES; i++) sum[i] += parts[p * LANES + i];
    }
}

static void scale_row(real *restrict x, real factor, size_t count) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) x[i] *= factor;
}

/* Scores of a block to unnormalised probabilities.  max and sum are the queries' running maximum
 * and sum over the keys so far; out, the sum of values so far, is scaled down where the maximum has
 * grown. */
static void softmax_block(real *restrict scores, real *restrict max, real *restrict sum,
                          real *restrict out, size_t C, size_t D, size_t rows, size_t keys,
                          const Mask *mask) {
    for (size_t r = 0; r < rows; r += LANES) {
        real new_max[LANES], new_sum[LANES], shrink[LANES];
        memcpy(new_max, max + r, sizeof new_max);
        column_max(new_max, scores + r, keys);
        for (size_t i = 0; i < LANES; i++) {
            shrink[i] = exp_real(max[r + i] -
                                 new_max[i]); /* 0 at the first block, whose max is -infinity */
            new_sum[i] = sum[r + i] * shrink[i];
        }
        column_exp(scores + r, new_sum, new_max, keys, mask,
                   mask->first + (uint32_t)r * mask->keys);
        for (size_t i = 0; i < LANES && r + i < rows; i++) {
            if (sum[r + i] > 0 && shrink[i] != 1) scale_row(out + (r + i) * C, shrink[i], D);
        }
        memcpy(max + r, new_max, sizeof new_max);
        memcpy(sum + r, new_sum, sizeof new_sum);
    }
}

/* scores (keys,QUERY_BLOCK) = scale k q^T, a part of the head's width at a time; columns past
 * `rows` are zero up to whole vectors.  q_t: (WIDTH_BLOCK,QUERY_BLOCK) of scratch. */
static void block_scores(real *restrict scores, const real *restrict k, const real *restrict q,
                         size_t C, size_t D, size_t keys, size_t rows, real scale,
                         real *restrict q_t) {
    for (size_t d = 0; d < D; d += WIDTH_BLOCK) {
        size_t width = smaller(WIDTH_BLOCK, D - d);
        small_transpose(q_t, QUERY_BLOCK, q + d, C, rows, width);
        small_gemm(scores, QUERY_BLOCK, small_plain(k + d, C), q_t, QUERY_BLOCK, keys,
                   small_gemm_pad(rows), width, scale, d == 0 ? SMALL_OVERWRITE : SMALL_ADD);
    }
}

static void forward_block(real *restrict out, real *restrict lse, const real *restrict q,
                          const real *restrict k, const real *restrict v, const AttentionShape *s,
                          const Head *head, size_t t, real *restrict scratch) {
    size_t C = s->H * s->D, rows = smaller(QUERY_BLOCK, head->T - t);
    real *max = scratch, *sum = max + QUERY_BLOCK, *scores = sum + QUERY_BLOCK,
         *q_t = scores + QUERY_BLOCK * KEY_BLOCK;
    real *out_t = out + head->query + t * C;
    for (size_t r = 0; r < QUERY_BLOCK; r++) {
        max[r] = -(real)INFINITY;
        sum[r] = 0;
    }
    for (size_t j = 0; j < head->keys; j += head->key_block) {
        size_t keys = smaller(head->key_block, head->keys - j), from = head->key + j * C;
        Mask mask = mask_at(s, head, t, j);
        block_scores(scores, k + from, q + head->query + t * C, C, s->D, keys, rows, head->scale,
                     q_t);
        softmax_block(scores, max, sum, out_t, C, s->D, rows, keys, &mask);
        small_gemm(out_t, C, small_transposed(scores, QUERY_BLOCK), v + from, C, rows, s->D, keys,
                   1, j == 0 ? SMALL_OVERWRITE : SMALL_ADD);
    }
    for (size_t r = 0; r < rows; r++) {
        scale_row(out_t + r * C, 1 / sum[r], s->D);
        if (lse != NULL)
            lse[(head->row + t + r) * s->H + head->h] = max[r] + (real)log((double)sum[r]);
    }
}

void attention_forward(real *restrict out, real *restrict lse, const real *restrict q,
                       const real *restrict k, const real *restrict v, const AttentionShape *shape,
                       real *restrict scratch) {
    size_t longest = 0;
    for (size_t b = 0; b < shape->B; b++) {
        size_t T = shape->start[b + 1] - shape->start[b];
        longest = T > longest ? T : longest;
    }
    size_t blocks = (longest + QUERY_BLOCK - 1) /
                    QUERY_BLOCK; /* of the longest; shorter sequences skip the rest */
    const bool shared = worth_sharing(shape);
    (void)shared; /* read by the pragma only */
#pragma omp parallel for schedule(dynamic) if (shared)
    for (size_t unit = 0; unit < shape->B * shape->H * blocks; unit++) {
        Head head = head_at(shape, unit / (shape->H * blocks), unit / blocks % shape->H);
        size_t t = unit % blocks * QUERY_BLOCK;
        if (t >= head.T || head.T <= shape->longer_than) continue;
        forward_block(out, lse, q, k, v, shape, &head, t,
                      scratch + parallel_index() * THREAD_SCRATCH);
    }
}

/* LANES queries: from scores and d_p = v . d_out to  scores = P * mask,  d_p = P * (mask * d_p -
 * d_dot)  with P = exp(scores - lse).  first: mask index of column 0. */
static void backward_columns(real *restrict scores, real *restrict d_p, const real *restrict lse,
                             const real *restrict d_dot, size_t keys, const Mask *mask,
                             uint32_t first) {
    uint64_t key = mask->key;
    uint32_t stride = mask->keys, threshold = mask->threshold;
    real scale = mask->scale;
    for (size_t j = 0; j < keys; j++) {
        real *restrict s = scores + j * QUERY_BLOCK, *restrict d = d_p + j * QUERY_BLOCK;
        if (threshold == 0) {
#pragma omp simd
            for (size_t i = 0; i < LANES; i++) {
                s[i] = exp_real(s[i] - lse[i]);
                d[i] = s[i] * (d[i] - d_dot[i]);
            }
        } else {
            uint32_t index = first + (uint32_t)j;
#pragma omp simd
            for (size_t i = 0; i < LANES; i++) {
                real prob = exp_real(s[i] - lse[i]);
                real factor = dropout_factor(key, index + (uint32_t)i * stride, threshold, scale);
                s[i] = prob * factor;
                d[i] = prob * (factor * d[i] - d_dot[i]);
            }
        }
    }
}

/* Pointers of a backward pass, whole tensors. */
typedef struct Backward {
    real *d_q, *d_k, *d_v;
    const real *d_out, *q, *k, *v, *out, *lse;
} Backward;

/* Of each row: lse, and d_dot = d_out . out, which the softmax's backward pass subtracts. */
static void load_rows(real *restrict lse, real *restrict d_dot, const Backward *a,
                      const AttentionShape *s, const Head *head, size_t t, size_t rows) {
    size_t C = s->H * s->D;
    for (size_t r = 0; r < rows; r++) {
        const real *restrict d_out = a->d_out + head->query + (t + r) * C, *restrict out =
                                                                               a->out +
                                                                               head->query +
                                                                               (t + r) * C;
        real dot = 0;
#pragma omp simd reduction(+ : dot)
        for (size_t d = 0; d < s->D; d++) dot += d_out[d] * out[d];
        d_dot[r] = dot;
        lse[r] = a->lse[(head->row + t + r) * s->H + head->h];
    }
    for (size_t r = rows; r < QUERY_BLOCK; r++) lse[r] = d_dot[r] = 0;
}

/* Query rows t.. against all keys of the head. */
static void backward_block(const Backward *a, const AttentionShape *s, const Head *head, size_t t,
                           real *restrict scratch) {
    size_t C = s->H * s->D, rows = smaller(QUERY_BLOCK, head->T - t), at = head->query + t * C;
    real *lse = scratch, *d_dot = lse + QUERY_BLOCK, *scores = d_dot + QUERY_BLOCK,
         *d_p = scores + QUERY_BLOCK * KEY_BLOCK, *q_t = d_p + QUERY_BLOCK * KEY_BLOCK;
    /* the first block of queries overwrites d_k and d_v, the first block of keys d_q */
    SmallStore store = t == 0 ? SMALL_OVERWRITE : SMALL_ADD;
    load_rows(lse, d_dot, a, s, head, t, rows);
    for (size_t j = 0; j < head->keys; j += head->key_block) {
        size_t keys = smaller(head->key_block, head->keys - j), from = head->key + j * C;
        Mask mask = mask_at(s, head, t, j);
        block_scores(scores, a->k + from, a->q + at, C, s->D, keys, rows, head->scale, q_t);
        block_scores(d_p, a->v + from, a->d_out + at, C, s->D, keys, rows, 1, q_t);
        for (size_t r = 0; r < rows; r += LANES) {
            backward_columns(scores + r, d_p + r, lse + r, d_dot + r, keys, &mask,
                             mask.first + (uint32_t)r * mask.keys);
        }
        small_gemm(a->d_v + from, C, small_plain(scores, QUERY_BLOCK), a->d_out + at, C, keys, s->D,
                   rows, 1, store);
        small_gemm(a->d_k + from, C, small_plain(d_p, QUERY_BLOCK), a->q + at, C, keys, s->D, rows,
                   head->scale, store);
        small_gemm(a->d_q + at, C, small_transposed(d_p, QUERY_BLOCK), a->k + from, C, rows, s->D,
                   keys, head->scale, j == 0 ? SMALL_OVERWRITE : SMALL_ADD);
    }
}

void attention_backward(real *restrict d_q, real *restrict d_k, real *restrict d_v,
                        const real *restrict d_out, const real *restrict q, const real *restrict k,
                        const real *restrict v, const real *restrict out, const real *restrict lse,
                        const AttentionShape *shape, real *restrict scratch) {
    Backward a = {d_q, d_k, d_v, d_out, q, k, v, out, lse};
    const bool shared = worth_sharing(shape);
    (void)shared;
#pragma omp parallel for schedule(dynamic) if (shared)
    for (size_t unit = 0; unit < shape->B * shape->H; unit++) {
        Head head = head_at(shape, unit / shape->H, unit % shape->H);
        if (head.T <= shape->longer_than) continue;
        real *mine = scratch + parallel_index() * THREAD_SCRATCH;
        for (size_t t = 0; t < head.T; t += QUERY_BLOCK) backward_block(&a, shape, &head, t, mine);
    }
}

size_t attention_scratch(void) {
    return THREAD_SCRATCH * parallel_max_threads();
}
