#include "short_attention.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "dropout.h"
#include "parallel.h"
#include "small_gemm.h"
#include "vector_math.h"

/* Bounds the scratch where heads are wide. */
enum { LONGEST = 128 };

/* Reals from the start of a row of `width` to the next. */
static size_t padded(size_t width) {
    return small_gemm_pad(width);
}

double short_attention_forward_size(size_t T, size_t D, size_t P) {
    double t = (double)T;
    return t * t * 2 * (double)(D + P);
}

double short_attention_backward_size(size_t T, size_t D, size_t P, bool trained) {
    double t = (double)T;
    return t * t * (5 * (double)D + (trained ? 6 : 4) * (double)P);
}

size_t short_attention_longest(size_t D, size_t P, size_t N) {
    size_t T = N < LONGEST ? N : LONGEST;
    /* the other order: two sequence projections and two products forward; each of the projections
     * has two gradients, and attention's backward pass five products */
    double other = 13 * (double)D * (double)P;
    while (T > 0 &&
           short_attention_forward_size(T, D, P) + short_attention_backward_size(T, D, P, true) >
               other * (double)T)
        T--;
    return T;
}

/* What one thread needs for one head: matrices of the longest short sequence in the batch, in
 * scratch. */
typedef struct Work {
    size_t T_pad, P_pad;
    real *e, *f;         /* (P,T_pad): first columns of E and F */
    real *e_t, *f_t;     /* (T,P_pad): the same transposed */
    real *k_t, *v_t;     /* (D,T_pad) */
    real *a, *w;         /* (T,T_pad): q k^T / sqrt(D), and probabilities f */
    real *d_a, *d_w;     /* (T,T_pad) */
    real *prob, *d_prob; /* (T,P_pad): scores, then probabilities after dropout; their gradients */
} Work;

/* The pieces of scratch in order, for sequences of up to T tokens; returns the reals taken. */
static size_t lay_out(Work *work, real *scratch, size_t T, size_t D, size_t P) {
    size_t T_pad = padded(T), P_pad = padded(P), used = 0;
    real **const pieces[] = {&work->e,   &work->f,   &work->e_t,  &work->f_t,
                             &work->k_t, &work->v_t, &work->a,    &work->w,
                             &work->d_a, &work->d_w, &work->prob, &work->d_prob};
    const size_t sizes[] = {P * T_pad, P * T_pad, T * P_pad, T * P_pad, D * T_pad, D * T_pad,
                            T * T_pad, T * T_pad, T * T_pad, T * T_pad, T * P_pad, T * P_pad};
    work->T_pad = T_pad;
    work->P_pad = P_pad;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        *pieces[i] = scratch ? scratch + used : NULL;
        used += sizes[i];
    }
    return used;
}

/* Sequences are cut into this many groups, so that the threads have a few units each. */
static size_t group_count(size_t H, size_t B) {
    size_t groups = (2 * parallel_max_threads() + H - 1) / H;
    return groups < B ? groups : B;
}

/* Gradients of E and F of one unit, transposed: (T,P_pad) each. */
static size_t partial_size(size_t T, size_t P) {
    return 2 * T * padded(P);
}

size_t short_attention_scratch(size_t H, size_t D, size_t P, size_t N) {
    Work unused;
    size_t T = short_attention_longest(D, P, N), threads = parallel_max_threads();
    if (T == 0) return 0;
    return threads * lay_out(&unused, NULL, T, D, P) +
           H * group_count(H, SIZE_MAX) * partial_size(T, P);
}

static size_t length(const ShortShape *s, size_t b) {
    return s->start[b + 1] - s->start[b];
}

static bool is_short(const ShortShape *s, size_t b) {
    return length(s, b) <= s->longest;
}

/* Tokens of the longest short sequence; *size: multiply-adds of the pass, about. */
static size_t longest_short(const ShortShape *s, double *size) {
    size_t T = 0;
    *size = 0;
    for (size_t b = 0; b < s->B; b++) {
        if (!is_short(s, b)) continue;
        T = length(s, b) > T ? length(s, b) : T;
        *size += (double)s->H * short_attention_forward_size(length(s, b), s->D, s->P);
    }
    assert(T <= short_attention_longest(s->D, s->P, s->N));
    return T;
}

/* The first T columns of a matrix of P rows, rows of `to` filled up with zeros to whole
 * vectors. */
static void copy_columns(real *restrict to, size_t to_stride, const real *restrict from,
                         size_t stride, size_t P, size_t T) {
    for (size_t p = 0; p < P; p++) {
        memcpy(to + p * to_stride, from + p * stride, T * sizeof *to);
        for (size_t t = T; t < padded(T); t++) to[p * to_stride + t] = 0;
    }
}

/* What the passes of one head of one sequence need besides the matrices. */
typedef struct Head {
    size_t at; /* element offset of its first row and column in (total,C) */
    size_t T;
    size_t lse;   /* offset in lse */
    uint64_t key; /* of the dropout mask */
} Head;

static Head head_at(const ShortShape *s, size_t b, size_t h) {
    Head head = {.at = (s->start[b] * s->H + h) * s->D, .T = length(s, b)};
    head.lse = s->start[b] * s->H + h;
    if (s->p > 0) {
        uint64_t sequence = dropout_key(s->seq_key[b], s->layer, SITE_PROBABILITIES);
        head.key = rng_key(sequence, RNG_DROPOUT, h, 0); /* as attention.h has it, T below 1024 */
    }
    return head;
}

/* Asks for the lines of one head of one sequence, which lie too far apart to be foreseen. */
static void fetch_rows(const real *x, const ShortShape *s, size_t b, size_t h) {
    size_t C = s->H * s->D, lines = PARALLEL_ALIGN * sizeof(float) / sizeof *x;
    for (size_t row = s->start[b]; row < s->start[b + 1]; row++) {
        for (size_t i = 0; i < s->D; i += lines)
            __builtin_prefetch(x + row * C + h * s->D + i, 0, 2);
    }
}

/* Dropout of one row of probabilities: element j is number first + j; threshold 0 keeps all. */
typedef struct Mask {
    uint64_t key;
    uint32_t first, threshold;
    real scale;
} Mask;

static Mask mask_at(const ShortShape *s, const Head *head, size_t t) {
    Mask mask = {0};
    if (s->p == 0) return mask;
    mask.key = head->key;
    mask.first = (uint32_t)(t * s->P);
    mask.threshold = dropout_threshold(s->p);
    mask.scale = (real)(1 / (1 - s->p));
    return mask;
}

/* A row of scores to exp(score - maximum), dropped out; the sum is that before dropout.  Returns
 * the maximum. */
static real softmax_row(real *restrict x, real *sum, size_t count, const Mask *mask) {
    real max = -(real)INFINITY, all = 0, scale = mask->scale;
    uint64_t key = mask->key;
    uint32_t first = mask->first, threshold = mask->threshold;
#pragma omp simd reduction(max : max)
    for (size_t j = 0; j < count; j++) max = x[j] > max ? x[j] : max;
    if (threshold == 0) {
#pragma omp simd reduction(+ : all)
        for (size_t j = 0; j < count; j++) {
            x[j] = exp_real(x[j] - max);
            all += x[j];
        }
    } else {
#pragma omp simd reduction(+ : all)
        for (size_t j = 0; j < count; j++) {
            real e = exp_real(x[j] - max);
            all += e;
            x[j] = e * dropout_factor(key, first + (uint32_t)j, threshold, scale);
        }
    }
    *sum = all;
    return max;
}

/* From scores and d_prob, the gradient of probabilities after dropout:  x = prob * mask,  d_x =
 * prob * (mask * d_prob - dot)  with prob = exp(score - lse). */
static void softmax_backward_row(real *restrict x, real *restrict d_x, size_t count, real lse,
                                 real dot, const Mask *mask) {
    real scale = mask->scale;
    uint64_t key = mask->key;
    uint32_t first = mask->first, threshold = mask->threshold;
    if (threshold == 0) {
#pragma omp simd
        for (size_t j = 0; j < count; j++) {
            x[j] = exp_real(x[j] - lse);
            d_x[j] = x[j] * (d_x[j] - dot);
        }
    } else {
#pragma omp simd
        for (size_t j = 0; j < count; j++) {
            real prob = exp_real(x[j] - lse);
            real factor = dropout_factor(key, first + (uint32_t)j, threshold, scale);
            x[j] = prob * factor;
            d_x[j] = prob * (factor * d_x[j] - dot);
        }
    }
}

static void scale_row(real *restrict x, real factor, size_t count) {
#pragma omp simd
    for (size_t i = 0; i < count; i++) x[i] *= factor;
}

/* Whole tensors of a forward pass. */
typedef struct Forward {
    real *out, *lse;
    const real *q, *k, *v, *proj_k, *proj_v;
} Forward;

static real score_scale(const ShortShape *s) {
    return (real)(1 / sqrt((double)s->D));
}

static void forward_head(const Forward *p, const ShortShape *s, const Work *work, size_t b,
                         size_t h) {
    Head head = head_at(s, b, h);
    size_t T = head.T, C = s->H * s->D, T_pad = work->T_pad, P_pad = work->P_pad;
    size_t cols = padded(T); /* garbage past T; no product reads it but into garbage */
    small_transpose(work->k_t, T_pad, p->k + head.at, C, T, s->D);
    small_gemm(work->a, T_pad, small_plain(p->q + head.at, C), work->k_t, T_pad, T, cols, s->D,
               score_scale(s), SMALL_OVERWRITE);
    small_gemm(work->prob, P_pad, small_plain(work->a, T_pad), work->e_t, P_pad, T, P_pad, T, 1,
               SMALL_OVERWRITE);
    real sums[LONGEST];
    for (size_t t = 0; t < T; t++) {
        Mask mask = mask_at(s, &head, t);
        real max = softmax_row(work->prob + t * P_pad, &sums[t], s->P, &mask);
        if (p->lse) p->lse[head.lse + t * s->H] = max + (real)log((double)sums[t]);
    }
    small_gemm(work->w, T_pad, small_plain(work->prob, P_pad), work->f, T_pad, T, cols, s->P, 1,
               SMALL_OVERWRITE);
    for (size_t t = 0; t < T; t++) scale_row(work->w + t * T_pad, 1 / sums[t], T);
    small_gemm(p->out + head.at, C, small_plain(work->w, T_pad), p->v + head.at, C, T, s->D, T, 1,
               SMALL_OVERWRITE);
}

/* The matrices of head h; e_t and f only for a forward pass. */
static void load_matrices(const Work *work, const real *proj_k, const real *proj_v,
                          const ShortShape *s, size_t h, size_t T, bool backward) {
    size_t g = s->G == 1 ? 0 : h;
    const real *e = proj_k + g * s->proj_stride, *f = proj_v + g * s->proj_stride;
    small_transpose(work->e_t, work->P_pad, e, s->N, s->P, T);
    copy_columns(work->f, work->T_pad, f, s->N, s->P, T);
    if (!backward) return;
    copy_columns(work->e, work->T_pad, e, s->N, s->P, T);
    small_transpose(work->f_t, work->P_pad, f, s->N, s->P, T);
}

/* How one call is cut up. */
typedef struct Cut {
    size_t T;             /* tokens of the longest short sequence */
    size_t groups, units; /* groups of sequences; of each, one unit a head */
    size_t work_size;     /* reals of one thread's work */
    bool shared;          /* worth waking the team */
} Cut;

static Cut cut_call(const ShortShape *s) {
    Cut cut = {.groups = group_count(s->H, s->B)};
    Work unused;
    double size;
    cut.T = longest_short(s, &size);
    cut.units = s->H * cut.groups;
    cut.work_size = lay_out(&unused, NULL, cut.T, s->D, s->P);
    cut.shared = size >= PARALLEL_MIN_MULTIPLY_ADDS;
    return cut;
}

static Work work_of_thread(real *scratch, const Cut *cut, const ShortShape *s) {
    Work work;
    lay_out(&work, scratch + parallel_index() * cut->work_size, cut->T, s->D, s->P);
    return work;
}

void short_attention_forward(real *restrict out, real *restrict lse, const real *restrict q,
                             const real *restrict k, const real *restrict v, const real *proj_k,
                             const real *proj_v, const ShortShape *shape, real *restrict scratch) {
    const Forward pass = {out, lse, q, k, v, proj_k, proj_v};
    const Cut cut = cut_call(shape);
    if (cut.T == 0) return;
#pragma omp parallel for schedule(dynamic) if (cut.shared)
    for (size_t unit = 0; unit < cut.units; unit++) {
        size_t h = unit % shape->H;
        Range mine = range_part(shape->B, unit / shape->H, cut.groups, 1);
        Work work = work_of_thread(scratch, &cut, shape);
        load_matrices(&work, proj_k, proj_v, shape, h, cut.T, false);
        for (size_t b = mine.begin; b < mine.end; b++) {
            if (b + 1 < mine.end && is_short(shape, b + 1)) {
                fetch_rows(q, shape, b + 1, h);
                fetch_rows(k, shape, b + 1, h);
                fetch_rows(v, shape, b + 1, h);
            }
            if (is_short(shape, b)) forward_head(&pass, shape, &work, b, h);
        }
    }
}

/* Whole tensors of a backward pass. */
typedef struct Backward {
    real *d_q, *d_k, *d_v;
    const real *d_out, *q, *k, *v, *out, *lse;
} Backward;

/* Scores and gradient of the probabilities to probabilities after dropout and gradient of the
 * scores. */
static void softmax_backward(const Backward *p, const ShortShape *s, const Work *work,
                             const Head *head) {
    size_t C = s->H * s->D, D = s->D;
    for (size_t t = 0; t < head->T; t++) {
        const real *restrict d_out = p->d_out + head->at + t * C, *restrict out =
                                                                      p->out + head->at + t * C;
        real dot = 0; /* sum of probability times its gradient; holds with dropout too */
#pragma omp simd reduction(+ : dot)
        for (size_t i = 0; i < D; i++) dot += d_out[i] * out[i];
        Mask mask = mask_at(s, head, t);
        softmax_backward_row(work->prob + t * work->P_pad, work->d_prob + t * work->P_pad, s->P,
                             p->lse[head->lse + t * s->H], dot, &mask);
    }
}

/* d_e_t, d_f_t (T,P_pad) are added to; NULL: frozen. */
static void backward_head(const Backward *p, const ShortShape *s, const Work *work, size_t b,
                          size_t h, real *d_e_t, real *d_f_t) {
    Head head = head_at(s, b, h);
    size_t T = head.T, D = s->D, C = s->H * D, P = s->P, T_pad = work->T_pad, P_pad = work->P_pad;
    size_t cols = padded(T);
    real scale = score_scale(s);
    const real *q = p->q + head.at, *k = p->k + head.at, *d_out = p->d_out + head.at;
    small_transpose(work->k_t, T_pad, k, C, T, D);
    small_transpose(work->v_t, T_pad, p->v + head.at, C, T, D);
    /* a = scale q k^T,  d_w = d_out v^T,  scores = a e^T,  d_prob = d_w f^T */
    small_gemm(work->a, T_pad, small_plain(q, C), work->k_t, T_pad, T, cols, D, scale,
               SMALL_OVERWRITE);
    small_gemm(work->d_w, T_pad, small_plain(d_out, C), work->v_t, T_pad, T, cols, D, 1,
               SMALL_OVERWRITE);
    small_gemm(work->prob, P_pad, small_plain(work->a, T_pad), work->e_t, P_pad, T, P_pad, T, 1,
               SMALL_OVERWRITE);
    small_gemm(work->d_prob, P_pad, small_plain(work->d_w, T_pad), work->f_t, P_pad, T, P_pad, T, 1,
               SMALL_OVERWRITE);
    softmax_backward(p, s, work, &head);
    /* w = prob f,  d_a = d_scores e,  d_f^T += d_w^T prob,  d_e^T += a^T d_scores */
    small_gemm(work->w, T_pad, small_plain(work->prob, P_pad), work->f, T_pad, T, cols, P, 1,
               SMALL_OVERWRITE);
    small_gemm(work->d_a, T_pad, small_plain(work->d_prob, P_pad), work->e, T_pad, T, cols, P,
               scale, SMALL_OVERWRITE);
    if (d_f_t)
        small_gemm(d_f_t, P_pad, small_transposed(work->d_w, T_pad), work->prob, P_pad, T, P_pad, T,
                   1, SMALL_ADD);
    if (d_e_t)
        small_gemm(d_e_t, P_pad, small_transposed(work->a, T_pad), work->d_prob, P_pad, T, P_pad, T,
                   1, SMALL_ADD);
    /* d_q = d_a k,  d_k = d_a^T q,  d_v = w^T d_out: by way of v_t, for d_v may be d_out */
    small_gemm(p->d_q + head.at, C, small_plain(work->d_a, T_pad), k, C, T, D, T, 1,
               SMALL_OVERWRITE);
    small_gemm(p->d_k + head.at, C, small_transposed(work->d_a, T_pad), q, C, T, D, T, 1,
               SMALL_OVERWRITE);
    small_gemm(work->v_t, D, small_transposed(work->w, T_pad), d_out, C, T, D, T, 1,
               SMALL_OVERWRITE);
    for (size_t t = 0; t < T; t++)
        memcpy(p->d_v + head.at + t * C, work->v_t + t * D, D * sizeof *work->v_t);
}

/* d_proj += the gradients of the units, transposed back, in their order. */
static void add_partials(real *d_proj, const real *partials, size_t stride, const Cut *cut,
                         const ShortShape *s) {
    size_t blocks = (s->P + PARALLEL_ALIGN - 1) / PARALLEL_ALIGN, P_pad = padded(s->P);
#pragma omp parallel for schedule(static) if (cut->units * cut->T * s->P >= PARALLEL_MIN)
    for (size_t i = 0; i < s->G * blocks; i++) {
        Range rows = range_part(s->P, i % blocks, blocks, PARALLEL_ALIGN);
        real *d_matrix = d_proj + i / blocks * s->proj_stride;
        for (size_t unit = 0; unit < cut->units; unit++) {
            if (s->G > 1 && unit % s->H != i / blocks) continue;
            const real *part = partials + unit * stride;
            for (size_t p = rows.begin; p < rows.end; p++) {
                for (size_t t = 0; t < cut->T; t++) d_matrix[p * s->N + t] += part[t * P_pad + p];
            }
        }
    }
}

void short_attention_backward(real *restrict d_q, real *restrict d_k, real *d_v, real *d_proj_k,
                              real *d_proj_v, const real *d_out, const real *restrict q,
                              const real *restrict k, const real *restrict v, const real *proj_k,
                              const real *proj_v, const real *restrict out,
                              const real *restrict lse, const ShortShape *shape,
                              real *restrict scratch) {
    const Backward pass = {d_q, d_k, d_v, d_out, q, k, v, out, lse};
    const Cut cut = cut_call(shape);
    if (cut.T == 0) return;
    size_t partial = partial_size(cut.T, shape->P);
    real *partials = scratch + parallel_max_threads() * cut.work_size;
#pragma omp parallel for schedule(dynamic) if (cut.shared)
    for (size_t unit = 0; unit < cut.units; unit++) {
        size_t h = unit % shape->H;
        Range mine = range_part(shape->B, unit / shape->H, cut.groups, 1);
        Work work = work_of_thread(scratch, &cut, shape);
        real *d_e_t = partials + unit * partial, *d_f_t = d_e_t + partial / 2;
        memset(d_e_t, 0, partial * sizeof *d_e_t);
        load_matrices(&work, proj_k, proj_v, shape, h, cut.T, true);
        for (size_t b = mine.begin; b < mine.end; b++) {
            if (b + 1 < mine.end && is_short(shape, b + 1)) {
                fetch_rows(q, shape, b + 1, h);
                fetch_rows(k, shape, b + 1, h);
                fetch_rows(v, shape, b + 1, h);
                fetch_rows(out, shape, b + 1, h);
                fetch_rows(d_out, shape, b + 1, h);
            }
            if (is_short(shape, b))
                backward_head(&pass, shape, &work, b, h, d_proj_k ? d_e_t : NULL,
                              d_proj_v ? d_f_t : NULL);
        }
    }
    if (d_proj_k) add_partials(d_proj_k, partials, partial, &cut, shape);
    if (d_proj_v) add_partials(d_proj_v, partials + partial / 2, partial, &cut, shape);
}
