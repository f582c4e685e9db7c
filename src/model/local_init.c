#include "local_init.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double EMBEDDING_STD = 0.1;
static const double NORMAL_STD = 0.02;       /* what params_init gave the matrices */
static const double PEAK_LOGIT = 20;         /* q . k / sqrt(d) at the wanted position */
static const double SINK_LOGIT = 17;         /* below the peak, above what the next position has */
static const double DEEPER_PEAK_LOGIT = 12;  /* of heads without all positions, after layer 0 */
static const double HIGHEST_FREQUENCY = 2.5; /* radians a position: neighbours differ clearly */

enum { OFFSETS = 8 };

/* Sizes the pieces below share. */
typedef struct Local {
    const ModelConfig *config;
    size_t C, H, d; /* width, heads, elements of a head */
    size_t pairs;   /* sine/cosine pairs of a position, and of a head's queries and keys */
} Local;

static double frequency(const Local *s, size_t pair) {
    double lowest = acos(-1) / (double)s->config->n; /* its wave is 2n long: no position recurs */
    double share = s->pairs > 1 ? (double)pair / (double)(s->pairs - 1) : 0;
    return HIGHEST_FREQUENCY * pow(lowest / HIGHEST_FREQUENCY, share);
}

static bool has_projection(const Local *s) {
    return s->config->attention == ATTENTION_LINFORMER;
}

static bool has_matrix_per_head(const Local *s) {
    return has_projection(s) && s->config->scope == SCOPE_HEAD;
}

/* Rows of one matrix of a layer. */
static size_t matrix_height(const Local *s, size_t layer) {
    return s->config->scope == SCOPE_MODEL ? params_largest_k(s->config) : s->config->k[layer];
}

/* S: positions that fall to one row. */
static size_t positions_per_row(const Local *s, size_t layer) {
    size_t k = matrix_height(s, layer);
    return (s->config->n + k - 1) / k;
}

/* Heads that together make one head of full attention. */
static size_t heads_per_offset(const Local *s, size_t layer) {
    return has_matrix_per_head(s) ? positions_per_row(s, layer) : 1;
}

/* Which of the offsets a head has. */
static size_t offset_number(const Local *s, size_t layer, size_t head) {
    return (layer * s->H + head) / heads_per_offset(s, layer);
}

static double head_offset(const Local *s, size_t layer, size_t head) {
    static const int single[OFFSETS] = {-1, 1, -2, 2, -3, 3, -4, 4};
    static const int block[OFFSETS] = {0, -1, 1, -2, 2, -3, 3, -4};
    size_t i = offset_number(s, layer, head) % OFFSETS;
    if (!has_projection(s) || has_matrix_per_head(s)) return single[i];
    return block[i] * (double)positions_per_row(s, layer);
}

static void init_embeddings(Params *params, const Local *s) {
    const ModelConfig *config = s->config;
    real scale = (real)(EMBEDDING_STD / NORMAL_STD);
    for (size_t v = 0; v < config->vocab; v++)
        for (size_t c = 0; c < s->C; c++)
            params->token[v * s->C + c] *= c < 2 * s->pairs ? 0 : scale;
    memset(params->position, 0, config->n * s->C * sizeof(real));
    for (size_t t = 0; t < config->n; t++)
        for (size_t p = 0; p < s->pairs; p++) {
            real *pair = params->position + t * s->C + 2 * p;
            double angle = (double)t * frequency(s, p);
            pair[0] = (real)(EMBEDDING_STD * sqrt(2) * sin(angle));
            pair[1] = (real)(EMBEDDING_STD * sqrt(2) * cos(angle));
        }
}

/* q_i = R(offset) position_i and k_j = position_j, both times alpha, in the head's first elements.
 */
static void init_queries_keys(LayerParams *layer, const Local *s, size_t l, size_t head) {
    double peak = l > 0 && heads_per_offset(s, l) > 1 ? DEEPER_PEAK_LOGIT : PEAK_LOGIT;
    /* pairs of radius sqrt(2) after the LayerNorm: q . k = alpha^2 2 pairs at the peak */
    double alpha = sqrt(peak * sqrt((double)s->d) / (2 * (double)s->pairs));
    for (size_t p = 0; p < s->pairs; p++) {
        double angle = head_offset(s, l, head) * frequency(s, p);
        real *q = layer->q_w + (head * s->d + 2 * p) * s->C + 2 * p, *q_next = q + s->C;
        real *k = layer->k_w + (head * s->d + 2 * p) * s->C + 2 * p, *k_next = k + s->C;
        k[0] += (real)alpha;
        k_next[1] += (real)alpha;
        q[0] += (real)(alpha * cos(angle));
        q[1] += (real)(alpha * sin(angle));
        q_next[0] -= (real)(alpha * sin(angle));
        q_next[1] += (real)(alpha * cos(angle));
    }
}

/* A constant -SINK_LOGIT on every row of E that sums to 1, none on the empty one. */
static void init_sink(LayerParams *layer, const Local *s, size_t head) {
    size_t last = head * s->d + s->d - 1;
    double bias = sqrt(SINK_LOGIT * sqrt((double)s->d));
    memset(layer->q_w + last * s->C, 0, s->C * sizeof(real));
    memset(layer->k_w + last * s->C, 0, s->C * sizeof(real));
    layer->q_b[last] = (real)bias;
    layer->k_b[last] = (real)-bias;
}

/* W_out = 0: what attention sees is noise until W_v means something, and the quickest way to be rid
 * of noise would be to look away. */
static void init_values(LayerParams *layer, const Local *s) {
    real scale = (real)(1 / (sqrt((double)s->C) * NORMAL_STD));
    for (size_t i = 0; i < s->C * s->C; i++) layer->v_w[i] *= scale;
    memset(layer->out_w, 0, s->C * s->C * sizeof(real));
}

static void copy_values(LayerParams *layer, const Local *s, size_t to, size_t from) {
    size_t size = s->d * s->C;
    memcpy(layer->v_w + to * size, layer->v_w + from * size, size * sizeof(real));
}

/* One position a row, those of class `class` modulo S; in layer 0 the last row stays empty where
 * S > 1. */
static void init_strided(real *matrix, const Local *s, size_t layer, size_t class) {
    size_t n = s->config->n, stride = positions_per_row(s, layer);
    size_t rows = matrix_height(s, layer) - (layer == 0 && stride > 1);
    for (size_t r = 0; r < rows && r * stride + class < n; r++)
        matrix[r * n + r * stride + class] += 1;
}

static void init_blocks(real *matrix, const Local *s, size_t layer) {
    size_t n = s->config->n, width = positions_per_row(s, layer);
    for (size_t t = 0; t < n; t++) matrix[t / width * n + t] += (real)(1 / sqrt((double)width));
}

/* E and F of a layer; those of the whole model once, at layer 0. */
static void init_projections(LayerParams *layer, const Local *s, size_t l) {
    const ModelConfig *config = s->config;
    if (config->scope == SCOPE_MODEL && l > 0) return;
    size_t stride = positions_per_row(s, l), size = matrix_height(s, l) * config->n;
    for (size_t m = 0; m < (config->tie_kv ? 1u : 2u); m++) {
        real *matrix = m == 0 ? layer->seq_proj_k : layer->seq_proj_v;
        if (config->scope != SCOPE_HEAD) init_blocks(matrix, s, l);
        for (size_t h = 0; config->scope == SCOPE_HEAD && h < s->H; h++)
            init_strided(matrix + h * size, s, l, (l * s->H + h) % stride);
    }
}

static void init_layer(LayerParams *layer, const Local *s, size_t l) {
    init_values(layer, s);
    size_t first = 0; /* head of this layer that was the first with the offset at hand */
    for (size_t h = 0; h < s->H; h++) {
        init_queries_keys(layer, s, l, h);
        if (heads_per_offset(s, l) == 1) continue;
        if (l == 0) init_sink(layer, s, h);
        if (offset_number(s, l, h) != offset_number(s, l, first)) first = h;
        if (h > first) copy_values(layer, s, h, first);
    }
    if (has_projection(s)) init_projections(layer, s, l);
}

void local_init(Params *params, const ModelConfig *config) {
    Local s = {.config = config, .C = config->width, .H = config->heads};
    s.d = s.C / s.H;
    assert(s.d >= LOCAL_INIT_MIN_HEAD);
    assert(!has_projection(&s) || config->projection == PROJECTION_LINEAR);
    s.pairs = s.d / 2 - 1;
    if (s.pairs > s.C / 8) s.pairs = s.C / 8; /* the rest of an embedding is the token's */
    init_embeddings(params, &s);
    for (size_t l = 0; l < config->layers; l++) init_layer(&params->layers[l], &s, l);
}
