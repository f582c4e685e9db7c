#include "head_spectra.h"

#include <math.h>

#include "attention_map.h"
#include "batcher.h"
#include "encoder.h"
#include "parallel.h"
#include "params.h"
#include "spectrum.h"
#include "svd.h"

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

size_t head_spectra_keys(const HeadSpectra *spectra, size_t l) {
    const ModelConfig *config = &spectra->config;
    return config->attention == ATTENTION_FULL ? config->n : config->k[l];
}

/* Matrices F of a layer. */
static size_t matrices(const ModelConfig *config) {
    return config->scope == SCOPE_HEAD ? config->heads : 1;
}

const real *head_spectra_f(const HeadSpectra *spectra, size_t l, size_t h) {
    const ModelConfig *config = &spectra->config;
    if (!spectrum_has_matrices(config)) return NULL;
    size_t matrix = config->scope == SCOPE_HEAD ? h : 0;
    return spectra->model->params.layers[l].seq_proj_v + matrix * config->k[l] * config->n;
}

static void *take(Arena *arena, size_t rows, size_t cols, size_t elem_size) {
    size_t count;
    if (!size_mul(rows, cols, &count)) arena->overflow = true;
    return arena->overflow ? NULL : arena_take(arena, count, elem_size);
}

/* Runs twice: counting, then placing. */
static void layout(HeadSpectra *s, Arena *arena) {
    const ModelConfig *config = &s->config;
    bool has_f = spectrum_has_matrices(config);
    size_t n = config->n, keys = 0, work = 0, threads = parallel_max_threads();
    for (size_t l = 0; l < config->layers; l++) {
        size_t layer_keys = head_spectra_keys(s, l);
        keys = larger(keys, layer_keys);
        work = larger(work, svd_scratch(n, layer_keys));
        if (!has_f) continue;
        work = larger(work, svd_lower_scratch(layer_keys, n));
        s->lower[l] = take(arena, matrices(config) * layer_keys, layer_keys, sizeof *s->lower[l]);
    }
    s->threads = arena_take(arena, threads, sizeof *s->threads);
    for (size_t t = 0; t < threads; t++) {
        HeadScratch mine = {.p = take(arena, n, keys, sizeof *mine.p),
                            .a = take(arena, n, keys, sizeof *mine.a),
                            .attention = arena_take(arena, keys, sizeof *mine.attention),
                            .effective = arena_take(arena, keys, sizeof *mine.effective),
                            .work = arena_take(arena, work, sizeof *mine.work)};
        if (arena->base && !arena->overflow) s->threads[t] = mine;
    }
}

/* The lower factor of every F: once for all sequences. */
static void factor_projections(HeadSpectra *s) {
    const ModelConfig *config = &s->config;
    size_t count = matrices(config), n = config->n;
#pragma omp parallel for schedule(dynamic)
    for (size_t unit = 0; unit < config->layers * count; unit++) {
        size_t l = unit / count, matrix = unit % count, k = config->k[l];
        HeadScratch *mine = &s->threads[parallel_index()];
        const real *f = head_spectra_f(s, l, matrix);
        for (size_t i = 0; i < k * n; i++) mine->a[i] = (double)f[i];
        svd_lower_factor(s->lower[l] + matrix * k * k, mine->a, k, n, mine->work);
    }
}

bool head_spectra_create(HeadSpectra *out, const LoadedModel *model, Err *err) {
    *out = (HeadSpectra){.model = model, .config = model->checkpoint.config.model};
    ModelConfig *config = &out->config;
    /* the activations of a training, because those keep what attention reads of every layer */
    config->dropout = config->attention_dropout = config->head_dropout = 0;
    config->recompute = RECOMPUTE_NONE;
    config->precision = PRECISION_FP32; /* rounding would show in the small singular values */
    Arena counting = {0};
    layout(out, &counting);
    bool ok = !counting.overflow ||
              err_set(err, ERR_FAILED, "attention matrices of n = %zu do not fit the address space",
                      config->n);
    ok = ok && (arena_create(&out->arena, counting.used, err) ||
                err_context(err, "attention matrices of n = %zu", config->n));
    ok = ok && activations_create(&out->acts, config, 1, config->n, ACTS_TRAINING, err) &&
         batch_create(&out->batch, 1, config->n, err);
    if (!ok) {
        head_spectra_destroy(out);
        return false;
    }
    out->acts.wants_keys = true;
    layout(out, &out->arena);
    if (spectrum_has_matrices(config)) factor_projections(out);
    return true;
}

void head_spectra_destroy(HeadSpectra *spectra) {
    if (!spectra) return;
    activations_destroy(&spectra->acts);
    batch_destroy(&spectra->batch);
    arena_destroy(&spectra->arena);
    *spectra = (HeadSpectra){0};
}

void head_spectra_forward(HeadSpectra *spectra, const uint32_t *ids) {
    Batch *batch = &spectra->batch;
    size_t n = spectra->config.n;
    batch->B = 1;
    batch->total = n;
    batch->start[0] = 0;
    batch->start[1] = n;
    batch->seq_key[0] = 0;
    batch->masked = 0;
    for (size_t t = 0; t < n; t++) batch->ids[t] = ids[t];
    encoder_forward(&spectra->acts, &spectra->model->params, &spectra->config, batch);
}

static bool is_finite(const real *p, size_t count) {
    real sum = 0;
#pragma omp simd reduction(+ : sum)
    for (size_t i = 0; i < count; i++) sum += p[i]; /* probabilities: no overflow */
    return isfinite(sum);
}

static void widen(double *restrict a, const real *restrict p, size_t count) {
    for (size_t i = 0; i < count; i++) a[i] = (double)p[i];
}

bool head_spectra_values(HeadScratch *scratch, const HeadSpectra *spectra, size_t l, size_t h) {
    const ModelConfig *config = &spectra->config;
    const LayerActs *acts = &spectra->acts.layers[l];
    size_t n = config->n, keys = head_spectra_keys(spectra, l), count = n * keys;
    attention_map(scratch->p, acts->q, acts->kp, n, keys, config->width,
                  config->width / config->heads, h);
    if (!is_finite(scratch->p, count)) return false;
    widen(scratch->a, scratch->p, count);
    if (!svd_values(scratch->attention, scratch->a, n, keys, scratch->work)) return false;
    if (!spectra->lower[l]) return true;
    size_t matrix = config->scope == SCOPE_HEAD ? h : 0;
    widen(scratch->a, scratch->p, count);
    svd_times_lower(scratch->a, spectra->lower[l] + matrix * keys * keys, n, keys);
    return svd_values(scratch->effective, scratch->a, n, keys, scratch->work);
}
