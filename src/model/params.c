#include "params.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "elementwise.h"
#include "io.h"
#include "local_init.h"
#include "pool_project.h"
#include "rng.h"

/* Extents of a tensor in terms of the configuration. */
typedef enum Dim { DIM_1, DIM_C, DIM_FF, DIM_V, DIM_N, DIM_PROJ, DIM_PROJ_COLS, DIM_CLASSES } Dim;

/* Which models have the tensor. */
typedef enum Presence {
    ALWAYS,
    PRE_NORM,
    PROJ_K,       /* E of a layer (or of its heads) */
    PROJ_V,       /* F, where it is not E */
    PROJ_MODEL_K, /* the one E of the whole model */
    PROJ_MODEL_V,
    MLM_HEAD,
    CLASS_HEAD
} Presence;

typedef struct Row {
    const char *name; /* "layer%zu." stands for one tensor a layer */
    Dim rows, cols;
    Presence presence;
    Init init;
    size_t member; /* offset of the pointer in LayerParams (layer rows) or Params */
} Row;

#define LAYER(m) offsetof(LayerParams, m)
#define MODEL(m) offsetof(Params, m)

/* clang-format off */
static const Row rows_model[] = {
    /* name         rows      cols           presence      init             member */
    { "token",      DIM_V,    DIM_C,         ALWAYS,       INIT_NORMAL,     MODEL(token) },
    { "position",   DIM_N,    DIM_C,         ALWAYS,       INIT_POSITION,   MODEL(position) },
    { "emb_ln_w",   DIM_C,    DIM_1,         ALWAYS,       INIT_ONE,        MODEL(emb_ln_w) },
    { "emb_ln_b",   DIM_C,    DIM_1,         ALWAYS,       INIT_ZERO,       MODEL(emb_ln_b) },
    /* no bias: the projection acts along the sequence; every layer's view points here */
    { "seq_proj_k", DIM_PROJ, DIM_PROJ_COLS, PROJ_MODEL_K, INIT_PROJECTION, 0 },
    { "seq_proj_v", DIM_PROJ, DIM_PROJ_COLS, PROJ_MODEL_V, INIT_PROJECTION, 0 },
};

static const Row rows_layer[] = {
    { "layer%zu.q_w",        DIM_C,    DIM_C,         ALWAYS, INIT_NORMAL,     LAYER(q_w) },
    { "layer%zu.q_b",        DIM_C,    DIM_1,         ALWAYS, INIT_ZERO,       LAYER(q_b) },
    { "layer%zu.k_w",        DIM_C,    DIM_C,         ALWAYS, INIT_NORMAL,     LAYER(k_w) },
    { "layer%zu.k_b",        DIM_C,    DIM_1,         ALWAYS, INIT_ZERO,       LAYER(k_b) },
    { "layer%zu.v_w",        DIM_C,    DIM_C,         ALWAYS, INIT_NORMAL,     LAYER(v_w) },
    { "layer%zu.v_b",        DIM_C,    DIM_1,         ALWAYS, INIT_ZERO,       LAYER(v_b) },
    { "layer%zu.seq_proj_k", DIM_PROJ, DIM_PROJ_COLS, PROJ_K, INIT_PROJECTION, LAYER(seq_proj_k) },
    { "layer%zu.seq_proj_v", DIM_PROJ, DIM_PROJ_COLS, PROJ_V, INIT_PROJECTION, LAYER(seq_proj_v) },
    { "layer%zu.out_w",      DIM_C,    DIM_C,         ALWAYS, INIT_NORMAL,     LAYER(out_w) },
    { "layer%zu.out_b",      DIM_C,    DIM_1,         ALWAYS, INIT_ZERO,       LAYER(out_b) },
    { "layer%zu.ln1_w",      DIM_C,    DIM_1,         ALWAYS, INIT_ONE,        LAYER(ln1_w) },
    { "layer%zu.ln1_b",      DIM_C,    DIM_1,         ALWAYS, INIT_ZERO,       LAYER(ln1_b) },
    { "layer%zu.ff1_w",      DIM_FF,   DIM_C,         ALWAYS, INIT_NORMAL,     LAYER(ff1_w) },
    { "layer%zu.ff1_b",      DIM_FF,   DIM_1,         ALWAYS, INIT_ZERO,       LAYER(ff1_b) },
    { "layer%zu.ff2_w",      DIM_C,    DIM_FF,        ALWAYS, INIT_NORMAL,     LAYER(ff2_w) },
    { "layer%zu.ff2_b",      DIM_C,    DIM_1,         ALWAYS, INIT_ZERO,       LAYER(ff2_b) },
    { "layer%zu.ln2_w",      DIM_C,    DIM_1,         ALWAYS, INIT_ONE,        LAYER(ln2_w) },
    { "layer%zu.ln2_b",      DIM_C,    DIM_1,         ALWAYS, INIT_ZERO,       LAYER(ln2_b) },
};

static const Row rows_head[] = {
    { "final_ln_w",    DIM_C,       DIM_1, PRE_NORM,   INIT_ONE,    MODEL(final_ln_w) },
    { "final_ln_b",    DIM_C,       DIM_1, PRE_NORM,   INIT_ZERO,   MODEL(final_ln_b) },
    { "head_w",        DIM_C,       DIM_C, MLM_HEAD,   INIT_NORMAL, MODEL(head_w) },
    { "head_b",        DIM_C,       DIM_1, MLM_HEAD,   INIT_ZERO,   MODEL(head_b) },
    { "head_ln_w",     DIM_C,       DIM_1, MLM_HEAD,   INIT_ONE,    MODEL(head_ln_w) },
    { "head_ln_b",     DIM_C,       DIM_1, MLM_HEAD,   INIT_ZERO,   MODEL(head_ln_b) },
    { "head_bias",     DIM_V,       DIM_1, MLM_HEAD,   INIT_ZERO,   MODEL(head_bias) },
    { "class_dense_w", DIM_C,       DIM_C, CLASS_HEAD, INIT_NORMAL, MODEL(class_dense_w) },
    { "class_dense_b", DIM_C,       DIM_1, CLASS_HEAD, INIT_ZERO,   MODEL(class_dense_b) },
    { "class_out_w",   DIM_CLASSES, DIM_C, CLASS_HEAD, INIT_NORMAL, MODEL(class_out_w) },
    { "class_out_b",   DIM_CLASSES, DIM_1, CLASS_HEAD, INIT_ZERO,   MODEL(class_out_b) },
};
/* clang-format on */

#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool row_present(const Row *row, const ModelConfig *config) {
    bool projects = model_has_projections(config);
    bool whole_model = config->scope == SCOPE_MODEL;
    switch (row->presence) {
    case ALWAYS: return true;
    case PRE_NORM: return config->norm == NORM_PRE;
    case PROJ_K: return projects && !whole_model;
    case PROJ_V: return projects && !whole_model && !config->tie_kv;
    case PROJ_MODEL_K: return projects && whole_model;
    case PROJ_MODEL_V: return projects && whole_model && !config->tie_kv;
    case MLM_HEAD: return config->classes == 0;
    case CLASS_HEAD: return config->classes > 0;
    }
    return false;
}

size_t params_largest_k(const ModelConfig *config) {
    size_t largest = 1;
    for (size_t l = 0; l < config->layers; l++)
        if (config->k[l] > largest) largest = config->k[l];
    return largest;
}

/* Taps of the widest windows: those of the smallest k. */
static size_t most_taps(const ModelConfig *config) {
    size_t most = 1;
    for (size_t l = 0; l < config->layers; l++) {
        size_t taps = pool_taps(config->k[l], config->n);
        if (taps > most) most = taps;
    }
    return most;
}

/* Rows of one E or F: projected length, or taps.  One for the whole model has those of the layer
 * that needs most, and the others use the first. */
static size_t matrix_rows(const ModelConfig *config, size_t layer) {
    bool whole_model = config->scope == SCOPE_MODEL;
    if (config->projection == PROJECTION_CONV)
        return whole_model ? most_taps(config) : pool_taps(config->k[layer], config->n);
    return whole_model ? params_largest_k(config) : config->k[layer];
}

/* Rows of a projection tensor: under scope head it holds H matrices, one below the other. */
static bool projection_rows(size_t *out, const ModelConfig *config, size_t layer) {
    return size_mul(matrix_rows(config, layer), config->scope == SCOPE_HEAD ? config->heads : 1,
                    out);
}

static bool dim_extent(size_t *out, Dim dim, const ModelConfig *config, size_t layer) {
    switch (dim) {
    case DIM_1: *out = 1; return true;
    case DIM_C: *out = config->width; return true;
    case DIM_FF: *out = config->ffn; return true;
    case DIM_V: *out = config->vocab; return true;
    case DIM_N: *out = config->n; return true;
    case DIM_PROJ: return projection_rows(out, config, layer);
    case DIM_PROJ_COLS:
        *out = config->projection == PROJECTION_CONV ? config->width / config->heads : config->n;
        return true;
    case DIM_CLASSES: *out = config->classes; return true;
    }
    return false;
}

static double row_init_std(const Row *row, const ModelConfig *config, size_t layer) {
    if (row->init == INIT_NORMAL || row->init == INIT_POSITION)
        return 0.02; /* RoBERTa's initializer_range */
    if (row->init != INIT_PROJECTION) return 0;
    if (config->projection != PROJECTION_FIXED) return config->proj_init_std;
    return 1 / sqrt((double)matrix_rows(
                   config, layer)); /* Linformer, theorem 2: entries of R are N(0, 1/k) */
}

/* A convolution begins as the mean over its widest window: at 0, as E and F do, its few taps would
 * make keys and values that are next to nothing. */
static double row_init_mean(const Row *row, const ModelConfig *config, size_t layer) {
    bool is_conv = row->init == INIT_PROJECTION && config->projection == PROJECTION_CONV;
    return is_conv ? 1 / (double)matrix_rows(config, layer) : 0;
}

/* Appends the tensor of one row; false on overflow. */
static bool table_append(ParamTable *table, const Row *row, const ModelConfig *config,
                         size_t layer) {
    Tensor *tensor = &table->items[table->count];
    size_t bytes;
    /* the names are ours: the only conversion in them is %zu */
    snprintf(tensor->name, sizeof tensor->name, row->name, layer);
    if (!dim_extent(&tensor->rows, row->rows, config, layer)) return false;
    if (!dim_extent(&tensor->cols, row->cols, config, layer)) return false;
    if (!size_mul(tensor->rows, tensor->cols, &tensor->count)) return false;
    if (!size_mul(tensor->count, sizeof(real), &bytes)) return false;
    if (bytes > SIZE_MAX / 8 - table->block_reals) return false;
    tensor->matrix = row->cols != DIM_1;
    tensor->head = row->presence == MLM_HEAD || row->presence == CLASS_HEAD;
    tensor->init = row->init;
    tensor->init_mean = row_init_mean(row, config, layer);
    tensor->init_std = row_init_std(row, config, layer);
    tensor->frozen = row->init == INIT_PROJECTION && config->projection == PROJECTION_FIXED;
    tensor->offset = table->block_reals;

    size_t align = ARENA_ALIGN / sizeof(real);
    table->block_reals += (tensor->count + align - 1) / align * align;
    table->parameters += tensor->count;
    if (!tensor->frozen) table->trainable += tensor->count;
    table->count++;
    return true;
}

/* Distinct k x n matrices, as the paper counts them, or kernels. */
static size_t count_projections(const ModelConfig *config) {
    if (!model_has_projections(config)) return 0;
    size_t count = config->tie_kv ? 1 : 2;
    if (config->scope != SCOPE_MODEL) count *= config->layers;
    if (config->scope == SCOPE_HEAD) count *= config->heads;
    return count;
}

bool param_table_create(ParamTable *out, const ModelConfig *config, Err *err) {
    *out = (ParamTable){0};
    size_t most = COUNT(rows_model) + COUNT(rows_layer) * config->layers + COUNT(rows_head);
    ParamTable table = {.items = calloc(most, sizeof *table.items)};
    if (!table.items)
        return err_set(err, ERR_FAILED, "out of memory for a table of %zu tensors", most);
    table.projections = count_projections(config);

    bool fits = true;
    for (size_t i = 0; fits && i < COUNT(rows_model); i++)
        if (row_present(&rows_model[i], config))
            fits = table_append(&table, &rows_model[i], config, 0);
    for (size_t l = 0; fits && l < config->layers; l++)
        for (size_t i = 0; fits && i < COUNT(rows_layer); i++)
            if (row_present(&rows_layer[i], config))
                fits = table_append(&table, &rows_layer[i], config, l);
    for (size_t i = 0; fits && i < COUNT(rows_head); i++)
        if (row_present(&rows_head[i], config))
            fits = table_append(&table, &rows_head[i], config, 0);

    if (!fits) {
        param_table_destroy(&table);
        return err_set(err, ERR_CONFIG,
                       "model: %zu layers of width %zu, ffn %zu, n %zu, vocabulary %zu do not fit "
                       "the address space",
                       config->layers, config->width, config->ffn, config->n, config->vocab);
    }
    *out = table;
    return true;
}

void param_table_destroy(ParamTable *table) {
    if (!table) return;
    free(table->items);
    *table = (ParamTable){0};
}

const Tensor *param_table_find(const ParamTable *table, const char *name) {
    for (size_t i = 0; i < table->count; i++)
        if (!strcmp(table->items[i].name, name)) return &table->items[i];
    return NULL;
}

bool param_blocks_create(real **blocks, Arena *arena, const ParamTable *table, size_t count,
                         Err *err) {
    Arena counting = {0};
    *arena = (Arena){0};
    for (size_t i = 0; i < count; i++) arena_take(&counting, table->block_reals, sizeof(real));
    if (counting.overflow) return err_set(err, ERR_CONFIG, "model: its size overflows");
    if (!arena_create(arena, counting.used, err)) return false;
    for (size_t i = 0; i < count; i++)
        blocks[i] = arena_take(arena, table->block_reals, sizeof(real));
    return true;
}

/* Sets the pointer member at `offset` bytes of a struct of pointers. */
static void set_member(void *views, size_t offset, real *value) {
    memcpy((char *)views + offset, &value, sizeof value);
}

/* E and F of the whole model, and F = E, are the same memory seen from every layer. */
static void share_projections(Params *out, const ParamTable *table, const ModelConfig *config) {
    if (!model_has_projections(config)) return;
    if (config->scope == SCOPE_MODEL) {
        const Tensor *e = param_table_find(table, "seq_proj_k"),
                     *f = param_table_find(table, "seq_proj_v");
        for (size_t l = 0; l < config->layers; l++) {
            out->layers[l].seq_proj_k = out->block + e->offset;
            if (f) out->layers[l].seq_proj_v = out->block + f->offset;
        }
    }
    if (config->tie_kv)
        for (size_t l = 0; l < config->layers; l++)
            out->layers[l].seq_proj_v = out->layers[l].seq_proj_k;
}

void params_view(Params *out, const ParamTable *table, const ModelConfig *config, real *block) {
    *out = (Params){.block = block};
    size_t at = 0; /* tensors stand in the order param_table_create appended them */
    for (size_t i = 0; i < COUNT(rows_model); i++) {
        if (!row_present(&rows_model[i], config)) continue;
        if (rows_model[i].init != INIT_PROJECTION)
            set_member(out, rows_model[i].member, block + table->items[at].offset);
        at++;
    }
    for (size_t l = 0; l < config->layers; l++)
        for (size_t i = 0; i < COUNT(rows_layer); i++)
            if (row_present(&rows_layer[i], config))
                set_member(&out->layers[l], rows_layer[i].member,
                           block + table->items[at++].offset);
    for (size_t i = 0; i < COUNT(rows_head); i++)
        if (row_present(&rows_head[i], config))
            set_member(out, rows_head[i].member, block + table->items[at++].offset);
    assert(at == table->count);
    share_projections(out, table, config);
}

const char *params_first_nonfinite(const real *block, const ParamTable *table) {
    for (size_t i = 0; i < table->count; i++) {
        const Tensor *t = &table->items[i];
        if (vec_first_nonfinite(block + t->offset, t->count) < t->count) return t->name;
    }
    return NULL;
}

void params_init(real *block, const ParamTable *table, const ModelConfig *config, uint64_t seed) {
    memset(block, 0, table->block_reals * sizeof *block);
    for (size_t i = 0; i < table->count; i++) {
        const Tensor *tensor = &table->items[i];
        real *w = block + tensor->offset;
        uint64_t key = rng_key(seed, RNG_INIT, io_hash(tensor->name, strlen(tensor->name)), 0);
        if (tensor->init == INIT_ZERO) continue;
#pragma omp parallel for schedule(static)
        for (size_t j = 0; j < tensor->count; j++)
            w[j] = tensor->init == INIT_ONE
                       ? 1
                       : (real)(tensor->init_mean + tensor->init_std * rng_normal(key, j));
    }
    if (config->init == INIT_SCHEME_LOCAL) {
        Params params;
        params_view(&params, table, config, block);
        local_init(&params, config);
    }
}
