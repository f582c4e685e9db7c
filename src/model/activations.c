#include "activations.h"

#include "attention.h"
#include "layernorm.h"
#include "parallel.h"
#include "params.h"
#include "short_attention.h"

enum { LOGITS_BYTES = 64 << 20, HEAD_ROWS_MIN = 64, HEAD_ROWS_MAX = 1024 };

/* Rows of a chunk: products of fewer would not reach full speed, more would not stay in cache.  A
 * sequence in the order of short_attention.h, far shorter than that, is never cut. */
enum { CHUNK_ROWS = 512 };

static real *take(Arena *arena, size_t rows, size_t cols) {
    size_t count;
    if (!size_mul(rows, cols, &count)) arena->overflow = true;
    return arena->overflow ? NULL : arena_take(arena, count, sizeof(real));
}

static NormStats take_stats(Arena *arena, size_t rows) {
    NormStats stats;
    stats.mean = take(arena, rows, 1);
    stats.rstd = take(arena, rows, 1);
    return stats;
}

/* Rows of the projected keys of a layer (max_B * P; of windows with a token there are no more than
 * tokens), or all rows in full attention. */
static size_t key_rows(const ModelConfig *config, size_t P, size_t max_B, size_t max_total) {
    if (config->attention == ATTENTION_FULL) return max_total;
    return model_pools(config) && max_total < max_B * P ? max_total : max_B * P;
}

/* Rows of k_pre and v_pre. */
static size_t pre_rows(const ModelConfig *config, size_t keys, size_t max_total) {
    if (model_pools(config)) return config->projection == PROJECTION_MEAN ? keys : max_total;
    /* with shared heads, project-first is only chosen when total <= B*P, so B*P rows hold either */
    return config->scope == SCOPE_HEAD ? max_total : keys;
}

/* Rows of what inference holds of one chunk at a time. */
static size_t held_rows(const Activations *acts) {
    return acts->mode == ACTS_INFERENCE ? acts->chunk_rows : acts->max_total;
}

/* What the next layer, or the last LayerNorm, starts from: kept in every training. */
static void take_output(LayerActs *layer, Arena *arena, const ModelConfig *config,
                        const Activations *acts) {
    layer->sum_ffn = take(arena, held_rows(acts), config->width);
    layer->ln2 = take_stats(arena, held_rows(acts));
}

static void take_attention(LayerActs *layer, Arena *arena, const ModelConfig *config, size_t P,
                           const Activations *acts) {
    size_t C = config->width, total = acts->max_total, rows = held_rows(acts);
    size_t keys = key_rows(config, P, acts->max_B, total);
    layer->sum_att = take(arena, rows, C);
    layer->ln1 = take_stats(arena, total);
    layer->q = take(arena, rows, C);
    if (config->attention == ATTENTION_LINFORMER) {
        size_t before = pre_rows(config, keys, total);
        bool pools_once = model_pools(config) && config->projection == PROJECTION_MEAN;
        layer->k_pre = take(arena, before, C);
        if (!pools_once) layer->v_pre = take(arena, before, C);
    }
    layer->kp = take(arena, keys, C);
    layer->vp = take(arena, keys, C);
    layer->att_out = take(arena, rows, C);
    layer->lse = take(arena, rows, config->heads);
}

static void take_ffn(LayerActs *layer, Arena *arena, const ModelConfig *config,
                     const Activations *acts) {
    layer->ff_pre = take(arena, held_rows(acts), config->ffn);
}

static void layout_layers(Activations *acts, Arena *arena, const ModelConfig *config) {
    bool keeps_output = acts->mode == ACTS_TRAINING,
         keeps_attention = keeps_output && config->recompute < RECOMPUTE_LAYER,
         keeps_ffn = keeps_output && config->recompute < RECOMPUTE_FFN;
    LayerActs shared = {0};
    if (!keeps_output) take_output(&shared, arena, config, acts);
    if (!keeps_attention) take_attention(&shared, arena, config, params_largest_k(config), acts);
    if (!keeps_ffn) take_ffn(&shared, arena, config, acts);
    for (size_t l = 0; l < config->layers; l++) {
        LayerActs *layer = &acts->layers[l];
        *layer = shared;
        if (keeps_output) take_output(layer, arena, config, acts);
        if (keeps_attention) take_attention(layer, arena, config, config->k[l], acts);
        if (keeps_ffn) take_ffn(layer, arena, config, acts);
    }
}

/* Reals of scratch of the attention kernels, which take turns. */
static size_t attention_reals(const ModelConfig *config) {
    size_t most = attention_scratch();
    if (config->attention == ATTENTION_FULL || model_pools(config)) return most;
    for (size_t l = 0; l < config->layers; l++) {
        size_t reals = short_attention_scratch(config->heads, config->width / config->heads,
                                               config->k[l], config->n);
        most = reals > most ? reals : most;
    }
    return most;
}

static void layout_scratch(Activations *acts, Arena *arena, const ModelConfig *config) {
    size_t B = acts->max_B, total = acts->max_total;
    size_t C = config->width, P = params_largest_k(config);
    if (acts->mode == ACTS_TRAINING || config->norm == NORM_PRE) acts->x = take(arena, total, C);
    acts->y = take(arena, held_rows(acts), C);
    acts->ff_act = take(arena, held_rows(acts), config->ffn);
    acts->row_sums = take(arena, B, P);
    acts->attention = take(arena, attention_reals(config), 1);
    acts->key_start = arena_take(arena, B + 1, sizeof *acts->key_start);
    acts->chunk_start = arena_take(arena, B + 1, sizeof *acts->chunk_start);
    acts->mixed.precision = config->precision;
    if (config->precision != PRECISION_FP32) {
        acts->mixed.threads = parallel_max_threads();
        acts->mixed.packed = arena_take(arena, acts->mixed.threads, mixed_scratch_bytes());
    }
    if (acts->mode == ACTS_INFERENCE) return;

    size_t keys = key_rows(config, P, B, total);
    acts->d_hidden = take(arena, total, C);
    acts->d_branch = take(arena, total, C);
    acts->d_q = take(arena, total, C);
    acts->d_att = take(arena, total, C);
    acts->d_kp = take(arena, keys, C);
    acts->d_vp = take(arena, keys, C);
    if (config->norm == NORM_PRE) acts->d_x = take(arena, total, C);
    acts->d_ff = take(arena, total, config->ffn);
    acts->norm_scratch = take(arena, layernorm_scratch(C), 1);
    acts->bias_scratch = take(arena, B, P);
}

static void layout_mlm_head(Activations *acts, Arena *arena, const ModelConfig *config) {
    size_t C = config->width, rows = LOGITS_BYTES / sizeof(real) / config->vocab;
    if (rows < HEAD_ROWS_MIN) rows = HEAD_ROWS_MIN;
    if (rows > HEAD_ROWS_MAX) rows = HEAD_ROWS_MAX;
    if (rows > acts->max_total) rows = acts->max_total;
    acts->head_rows = rows;
    acts->head_x = take(arena, rows, C);
    acts->head_pre = take(arena, rows, C);
    acts->head_act = take(arena, rows, C);
    acts->head_h = take(arena, rows, C);
    acts->head_ln = take_stats(arena, rows);
    acts->logits = take(arena, rows, config->vocab);
    acts->row_loss = take(arena, rows, 1);
    if (acts->mode == ACTS_INFERENCE) return;
    acts->d_head = take(arena, rows, C);
    acts->d_head2 = take(arena, rows, C);
}

static void layout_class_head(Activations *acts, Arena *arena, const ModelConfig *config) {
    size_t B = acts->max_B, C = config->width;
    acts->class_rows = arena_take(arena, B, sizeof *acts->class_rows);
    acts->class_start = arena_take(arena, B + 1, sizeof *acts->class_start);
    acts->class_x = take(arena, B, C);
    acts->class_tanh = take(arena, B, C);
    acts->class_logits = take(arena, B, config->classes);
    acts->row_loss = take(arena, B, 1);
    if (acts->mode == ACTS_INFERENCE) return;
    acts->class_h = take(arena, B, C);
    acts->d_head = take(arena, B, C);
    acts->d_head2 = take(arena, B, C);
}

/* Runs twice: counting (arena->base NULL), then placing. */
static void layout(Activations *acts, Arena *arena, const ModelConfig *config) {
    size_t total = acts->max_total, C = config->width;
    bool training = acts->mode == ACTS_TRAINING;
    acts->chunk_rows = total < CHUNK_ROWS ? total : CHUNK_ROWS;
    if (training) acts->emb_sum = take(arena, total, C);
    acts->emb_ln = take_stats(arena, total);
    if (training && config->norm == NORM_PRE) acts->stream0 = take(arena, total, C);
    layout_layers(acts, arena, config);
    if (config->norm == NORM_PRE) acts->final_ln = take_stats(arena, total);
    acts->hidden = take(arena, total, C);
    layout_scratch(acts, arena, config);
    if (config->classes == 0)
        layout_mlm_head(acts, arena, config);
    else
        layout_class_head(acts, arena, config);
}

bool activations_bytes(size_t *out, const ModelConfig *config, size_t max_B, size_t max_total,
                       ActMode mode, Err *err) {
    Activations acts = {.mode = mode, .max_B = max_B, .max_total = max_total};
    Arena counting = {0};
    layout(&acts, &counting, config);
    if (counting.overflow)
        return err_set(err, ERR_CONFIG,
                       "activations of %zu sequences, %zu tokens do not fit the address space",
                       max_B, max_total);
    *out = counting.used;
    return true;
}

bool activations_create(Activations *out, const ModelConfig *config, size_t max_B, size_t max_total,
                        ActMode mode, Err *err) {
    *out = (Activations){.mode = mode, .max_B = max_B, .max_total = max_total};
    size_t bytes;
    if (!mixed_check(config->precision, err)) return false;
    if (!activations_bytes(&bytes, config, max_B, max_total, mode, err)) return false;
    if (!arena_create(&out->arena, bytes, err)) return err_context(err, "activations");
    layout(out, &out->arena, config);
    return true;
}

void activations_destroy(Activations *acts) {
    if (!acts) return;
    arena_destroy(&acts->arena);
    *acts = (Activations){0};
}
