#include "params.h"

#include "harness.h"
#include "model_fixture.h"

/* The six combinations of scope and tying; sharing's four shorthands are among them. */
static const struct {
    Scope scope;
    bool tie_kv;
} sharings[] = {{SCOPE_HEAD, false}, {SCOPE_HEAD, true},   {SCOPE_LAYER, false},
                {SCOPE_LAYER, true}, {SCOPE_MODEL, false}, {SCOPE_MODEL, true}};
enum { SHARINGS = sizeof sharings / sizeof *sharings };

static ModelConfig config_base(void) {
    ModelConfig config = {
        .n = 512, .layers = 12, .width = 768, .heads = 12, .ffn = 3072, .vocab = 50000};
    config.scope = SCOPE_LAYER;
    config.proj_init_std = 0.02;
    for (size_t l = 0; l < config.layers; l++) config.k[l] = 128;
    return config;
}

static void check_counts(const ModelConfig *config, size_t parameters, size_t projections) {
    ParamTable table;
    Err err = {0};
    if (!CHECK_MSG(param_table_create(&table, config, &err), "%s", err.msg)) return;
    CHECK_INT(table.parameters, parameters);
    CHECK_INT(table.projections, projections);
    CHECK_INT(table.trainable,
              config->projection == PROJECTION_FIXED ? parameters - 24u * 128 * 512 : parameters);
    param_table_destroy(&table);
}

/* Counted by hand: embeddings 50,000 x 768 + 512 x 768 + 2 x 768; a layer 7,087,872; head 768 x
 * 768 + 3 x 768 + 50,000; a projection 128 x 512. */
static void test_counts_at_base_size(void) {
    ModelConfig config = config_base();
    check_counts(&config, 126064208, 24);
    config.tie_kv = true;
    check_counts(&config, 125277776, 12);
    config.scope = SCOPE_MODEL;
    check_counts(&config, 124556880, 1);
    config.tie_kv = false;
    check_counts(&config, 124491344 + 2 * 65536, 2);
    config.scope = SCOPE_HEAD;
    check_counts(&config, 143365712, 288);
    config.tie_kv = true;
    check_counts(&config, 124491344 + 144 * 65536, 144);
    config.attention = ATTENTION_FULL;
    check_counts(&config, 124491344, 0);

    config = config_base();
    config.projection = PROJECTION_FIXED;
    check_counts(&config, 126064208, 24);
    config = config_base();
    config.norm = NORM_PRE;
    check_counts(&config, 126064208 + 2 * 768, 24);
}

/* Instead of the other head's 768 x 768 + 3 x 768 + 50,000: 768 x 768 + 768 and classes x 769. */
static void test_counts_of_classifiers(void) {
    ModelConfig config = config_base();
    config.classes = 2;
    check_counts(&config, 126064208 - 2 * 768 - 50000 + 2 * 769, 24);
    config.classes = 1000;
    config.norm = NORM_PRE;
    config.projection = PROJECTION_FIXED;
    check_counts(&config, 126064208 - 50000 + 1000 * 769, 24);
}

/* Neither mean nor max has parameters.  A convolution has ceil(n/k) taps for each of the 64 columns
 * of a head: 4, or 5 where k = 120 doesn't divide n. */
static void test_counts_of_poolings(void) {
    ModelConfig config = config_base();
    const size_t none = 124491344;
    for (size_t s = 0; s < SHARINGS; s++) {
        size_t matrices = sharings[s].tie_kv ? 1 : 2;
        if (sharings[s].scope != SCOPE_MODEL) matrices *= 12;
        if (sharings[s].scope == SCOPE_HEAD) matrices *= 12;
        config.scope = sharings[s].scope;
        config.tie_kv = sharings[s].tie_kv;
        config.projection = PROJECTION_MEAN;
        check_counts(&config, none, 0);
        config.projection = PROJECTION_MAX;
        check_counts(&config, none, 0);
        config.projection = PROJECTION_CONV;
        check_counts(&config, none + matrices * 4 * 64, matrices);
        config.k[7] = 120;
        check_counts(&config,
                     none + matrices * 4 * 64 +
                         (config.scope == SCOPE_MODEL ? matrices : matrices / 12) * 64,
                     matrices);
        config.k[7] = 128;
    }
}

/* Two layers of unequal k: the height of the shared matrix is the larger one, in either order. */
static void test_nonuniform_counts(void) {
    for (size_t swap = 0; swap < 2; swap++) {
        ModelConfig config = model_config_tiny();
        config.attention = ATTENTION_FULL;
        ParamTable full, table;
        REQUIRE(param_table_create(&full, &config, NULL));
        config.attention = ATTENTION_LINFORMER;
        if (swap) config.k[0] = 3, config.k[1] = 5;
        const size_t wanted[SHARINGS] = {2 * 3 * 8 * 11, 3 * 8 * 11, 2 * 8 * 11,
                                         8 * 11,         2 * 5 * 11, 5 * 11};
        for (size_t s = 0; s < SHARINGS; s++) {
            config.scope = sharings[s].scope;
            config.tie_kv = sharings[s].tie_kv;
            REQUIRE(param_table_create(&table, &config, NULL));
            CHECK_INT(table.parameters - full.parameters, wanted[s]);
            param_table_destroy(&table);
        }
        param_table_destroy(&full);
    }
}

/* Tied tensors are one tensor: the same memory in weights and gradients, and one entry of the
 * table. */
static void test_sharing_is_one_tensor(void) {
    for (size_t s = 0; s < SHARINGS; s++) {
        ModelConfig config = model_config_tiny();
        config.scope = sharings[s].scope;
        config.tie_kv = sharings[s].tie_kv;
        Model model;
        model_create(&model, &config, 1, 11, ACTS_TRAINING);
        for (const Params *p = &model.params;; p = &model.d_params) {
            const LayerParams *a = &p->layers[0], *b = &p->layers[1];
            CHECK(a->seq_proj_k && a->seq_proj_v && b->seq_proj_k && b->seq_proj_v);
            CHECK_INT(a->seq_proj_k == a->seq_proj_v, config.tie_kv);
            CHECK_INT(b->seq_proj_k == b->seq_proj_v, config.tie_kv);
            CHECK_INT(a->seq_proj_k == b->seq_proj_k, config.scope == SCOPE_MODEL);
            CHECK_INT(a->seq_proj_v == b->seq_proj_v, config.scope == SCOPE_MODEL);
            if (p == &model.d_params) break;
        }
        size_t entries = 0, matrices = 0;
        for (size_t i = 0; i < model.table.count; i++) {
            const Tensor *t = &model.table.items[i];
            if (t->init != INIT_PROJECTION) continue;
            entries++;
            matrices += config.scope == SCOPE_HEAD ? config.heads : 1;
        }
        CHECK_INT(entries, (config.scope == SCOPE_MODEL ? 1 : 2) * (config.tie_kv ? 1 : 2));
        CHECK_INT(matrices, model.table.projections);
        model_destroy(&model);
    }
}

static void check_no_projection(const ModelConfig *config) {
    Model model;
    model_create(&model, config, 1, 11, ACTS_TRAINING);
    for (size_t l = 0; l < config->layers; l++)
        CHECK(!model.params.layers[l].seq_proj_k && !model.params.layers[l].seq_proj_v);
    CHECK(!param_table_find(&model.table, "layer0.seq_proj_k") &&
          !param_table_find(&model.table, "seq_proj_k"));
    model_destroy(&model);
}

static void test_full_attention_has_no_projection(void) {
    ModelConfig config = model_config_tiny();
    config.attention = ATTENTION_FULL;
    check_no_projection(&config);
    config.attention = ATTENTION_LINFORMER;
    for (Scope scope = SCOPE_HEAD; scope <= SCOPE_MODEL; scope++) {
        config.scope = scope;
        config.projection = PROJECTION_MEAN;
        check_no_projection(&config);
        config.projection = PROJECTION_MAX;
        check_no_projection(&config);
    }
}

/* Tensors are aligned, don't overlap, stay inside the block, and matrices are what is not a bias
 * or LayerNorm parameter. */
static void test_layout(void) {
    for (size_t s = 0; s < SHARINGS; s++) {
        ModelConfig config = model_config_tiny();
        config.scope = sharings[s].scope;
        config.tie_kv = sharings[s].tie_kv;
        config.norm = s % 2 ? NORM_PRE : NORM_POST;
        ParamTable table;
        REQUIRE(param_table_create(&table, &config, NULL));
        size_t end = 0, parameters = 0;
        for (size_t i = 0; i < table.count; i++) {
            const Tensor *t = &table.items[i];
            CHECK_INT(t->offset * sizeof(real) % 64, 0);
            CHECK(t->offset >= end);
            CHECK_INT(t->count, t->rows * t->cols);
            end = t->offset + t->count;
            parameters += t->count;
            bool vector =
                strstr(t->name, "_b") || strstr(t->name, "ln") || !strcmp(t->name, "head_bias");
            CHECK_MSG(t->matrix == !vector, "%s: matrix is %d", t->name, t->matrix);
            CHECK(param_table_find(&table, t->name) == t);
            CHECK_INT(t->frozen, 0);
        }
        CHECK(end <= table.block_reals);
        CHECK_INT(parameters, table.parameters);
        CHECK_INT(table.trainable, table.parameters);
        CHECK(param_table_find(&table, "layer2.q_w") == NULL);
        CHECK((param_table_find(&table, "final_ln_w") != NULL) == (config.norm == NORM_PRE));
        param_table_destroy(&table);
    }
}

typedef struct Wanted {
    const char *name;
    const real *at;
    size_t rows, cols;
} Wanted;

static void check_views(const Model *m, const Wanted *wanted, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const Tensor *t = param_table_find(&m->table, wanted[i].name);
        if (!CHECK_MSG(t != NULL, "no tensor %s", wanted[i].name)) continue;
        CHECK_MSG(wanted[i].at == m->weights + t->offset, "%s points elsewhere", t->name);
        CHECK_INT(t->rows, wanted[i].rows);
        CHECK_INT(t->cols, wanted[i].cols);
    }
}

/* Every member of the views points at the tensor of its name. */
static void test_views_match_names(void) {
    ModelConfig config = model_config_tiny();
    config.norm = NORM_PRE;
    Model m;
    model_create(&m, &config, 1, 11, ACTS_TRAINING);
    const Params *p = &m.params;
    const LayerParams *l = &p->layers[1];
    const Wanted wanted[] = {
        {"token", p->token, 37, 12},
        {"position", p->position, 11, 12},
        {"emb_ln_w", p->emb_ln_w, 12, 1},
        {"emb_ln_b", p->emb_ln_b, 12, 1},
        {"layer1.q_w", l->q_w, 12, 12},
        {"layer1.k_w", l->k_w, 12, 12},
        {"layer1.v_w", l->v_w, 12, 12},
        {"layer1.q_b", l->q_b, 12, 1},
        {"layer1.k_b", l->k_b, 12, 1},
        {"layer1.v_b", l->v_b, 12, 1},
        {"layer1.seq_proj_k", l->seq_proj_k, 3, 11},
        {"layer1.seq_proj_v", l->seq_proj_v, 3, 11},
        {"layer1.out_w", l->out_w, 12, 12},
        {"layer1.out_b", l->out_b, 12, 1},
        {"layer1.ln1_w", l->ln1_w, 12, 1},
        {"layer1.ln1_b", l->ln1_b, 12, 1},
        {"layer1.ff1_w", l->ff1_w, 20, 12},
        {"layer1.ff1_b", l->ff1_b, 20, 1},
        {"layer1.ff2_w", l->ff2_w, 12, 20},
        {"layer1.ff2_b", l->ff2_b, 12, 1},
        {"layer1.ln2_w", l->ln2_w, 12, 1},
        {"layer1.ln2_b", l->ln2_b, 12, 1},
        {"final_ln_w", p->final_ln_w, 12, 1},
        {"final_ln_b", p->final_ln_b, 12, 1},
        {"head_w", p->head_w, 12, 12},
        {"head_b", p->head_b, 12, 1},
        {"head_ln_w", p->head_ln_w, 12, 1},
        {"head_ln_b", p->head_ln_b, 12, 1},
        {"head_bias", p->head_bias, 37, 1},
    };
    enum { LAYER_ROWS = 18, OTHERS = sizeof wanted / sizeof *wanted - LAYER_ROWS };
    CHECK_INT(m.table.count, OTHERS + 2 * LAYER_ROWS);
    check_views(&m, wanted, sizeof wanted / sizeof *wanted);
    CHECK(!p->class_dense_w && !p->class_dense_b && !p->class_out_w && !p->class_out_b);
    model_destroy(&m);
}

/* A classifier has the tensors of its own head and none of the other's; the encoder's are the
 * same. */
static void test_views_of_classifiers(void) {
    ModelConfig config = model_config_tiny();
    Model mlm, m;
    model_create(&mlm, &config, 1, 11, ACTS_TRAINING);
    config.classes = 7;
    model_create(&m, &config, 1, 11, ACTS_TRAINING);
    const Params *p = &m.params;
    const Wanted wanted[] = {
        {"class_dense_w", p->class_dense_w, 12, 12},
        {"class_dense_b", p->class_dense_b, 12, 1},
        {"class_out_w", p->class_out_w, 7, 12},
        {"class_out_b", p->class_out_b, 7, 1},
    };
    check_views(&m, wanted, 4);
    CHECK(!p->head_w && !p->head_b && !p->head_ln_w && !p->head_ln_b && !p->head_bias);
    CHECK_INT(m.table.count, mlm.table.count - 1);
    size_t heads = 0, common = 0;
    for (size_t i = 0; i < m.table.count; i++) {
        const Tensor *t = &m.table.items[i], *other = param_table_find(&mlm.table, t->name);
        CHECK_MSG(t->head == !other, "%s: head is %d", t->name, t->head);
        heads += t->head;
        common += other && other->rows == t->rows && other->cols == t->cols && !other->head;
    }
    CHECK_INT(heads, 4);
    CHECK_INT(common, m.table.count - 4);
    params_init(m.weights, &m.table, &m.config, test_seed());
    for (size_t i = 0; i < 12; i++)
        CHECK(p->class_dense_b[i] == 0 && (i >= 7 || !p->class_out_b[i]));
    CHECK(p->class_dense_w[5] != 0 && p->class_out_w[5] != 0);
    model_destroy(&mlm);
    model_destroy(&m);
}

static double deviation(const real *w, size_t count) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++) sum += (double)w[i];
    double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++) squares += ((double)w[i] - mean) * ((double)w[i] - mean);
    return sqrt(squares / (double)count);
}

static double mean_of(const real *w, size_t count) {
    double sum = 0;
    for (size_t i = 0; i < count; i++) sum += (double)w[i];
    return sum / (double)count;
}

/* 5% of the standard deviation: the tensors have at least 5,000 elements, so that one sigma of
 * the estimate is below 1%. */
static void test_initial_values(void) {
    for (size_t fixed = 0; fixed < 2; fixed++) {
        ModelConfig config = {
            .n = 128, .k = {64, 40}, .scope = SCOPE_LAYER, .layers = 2, .width = 72, .heads = 3};
        if (fixed) config.classes = 100; /* either head */
        config.ffn = 96;
        config.vocab = 211;
        config.proj_init_std = 0.07;
        config.projection = fixed ? PROJECTION_FIXED : PROJECTION_LINEAR;
        ParamTable table;
        REQUIRE(param_table_create(&table, &config, NULL));
        Arena arena;
        real *block = model_create_block(&arena, &table);
        block[table.items[2].offset] = 7; /* params_init overwrites what was there */
        params_init(block, &table, &config, test_seed());
        for (size_t i = 0; i < table.count; i++) {
            const Tensor *t = &table.items[i];
            const real *w = block + t->offset;
            bool scale = strstr(t->name, "ln") && strstr(t->name, "_w");
            double std = 0.02;
            if (strstr(t->name, "seq_proj"))
                std = fixed ? 1 / sqrt((double)config.k[t->name[5] - '0']) : 0.07;
            if (t->matrix) {
                CHECK_MSG(fabs(deviation(w, t->count) / std - 1) < 0.05,
                          "%s: standard deviation %g, not %g", t->name, deviation(w, t->count),
                          std);
                /* five sigma of the mean */
                CHECK_MSG(fabs(mean_of(w, t->count)) < 5 * std / sqrt((double)t->count),
                          "%s: mean %g", t->name, mean_of(w, t->count));
                CHECK_INT(t->frozen, fixed && strstr(t->name, "seq_proj") != NULL);
            } else {
                for (size_t j = 0; j < t->count; j++)
                    if (!CHECK_MSG(w[j] == (scale ? 1 : 0), "%s[%zu] is %g", t->name, j,
                                   (double)w[j]))
                        break;
            }
        }
        arena_destroy(&arena);
        param_table_destroy(&table);
    }
}

/* A convolution begins as the mean over its window, whose width is that of the layer, or under
 * scope model the widest. */
static void test_initial_taps(void) {
    for (Scope scope = SCOPE_HEAD; scope <= SCOPE_MODEL; scope++) {
        ModelConfig config = {.n = 1000,
                              .k = {4, 10},
                              .scope = scope,
                              .projection = PROJECTION_CONV,
                              .layers = 2,
                              .width = 120,
                              .heads = 3,
                              .ffn = 8,
                              .vocab = 11,
                              .proj_init_std = 0.07};
        Model m;
        size_t found = 0;
        model_create(&m, &config, 1, 11, ACTS_TRAINING);
        params_init(m.weights, &m.table, &config, test_seed());
        for (size_t i = 0; i < m.table.count; i++) {
            const Tensor *t = &m.table.items[i];
            if (!strstr(t->name, "seq_proj")) continue;
            const real *w = m.weights + t->offset;
            size_t taps = t->name[0] == 'l' && t->name[5] == '1' ? 100 : 250;
            CHECK(t->matrix && !t->frozen && t->init == INIT_PROJECTION);
            CHECK_INT(t->cols, 40);
            CHECK_INT(t->rows, taps * (scope == SCOPE_HEAD ? 3 : 1));
            CHECK(fabs(deviation(w, t->count) / 0.07 - 1) < 0.06);
            CHECK(fabs(mean_of(w, t->count) - 1 / (double)taps) < 5 * 0.07 / sqrt(t->count));
            found++;
        }
        CHECK_INT(found, scope == SCOPE_MODEL ? 2 : 4);
        model_destroy(&m);
    }
}

/* E and F start as different matrices, and so do the layers' and, under scope head, the heads'. */
static void test_initial_matrices_differ(void) {
    ModelConfig config = model_config_tiny();
    config.scope = SCOPE_HEAD;
    config.k[1] = 5;
    Model m;
    model_create(&m, &config, 1, 11, ACTS_TRAINING);
    params_init(m.weights, &m.table, &m.config, 3);
    const LayerParams *a = &m.params.layers[0], *b = &m.params.layers[1];
    const real *matrices[] = {a->seq_proj_k, a->seq_proj_k + 55, a->seq_proj_v, b->seq_proj_k,
                              b->seq_proj_v};
    for (size_t i = 0; i < 5; i++)
        for (size_t j = 0; j < i; j++)
            CHECK(memcmp(matrices[i], matrices[j], 55 * sizeof(real)) != 0);
    CHECK(memcmp(a->q_w, a->k_w, 144 * sizeof(real)) != 0);
    CHECK(memcmp(a->q_w, b->q_w, 144 * sizeof(real)) != 0);
    model_destroy(&m);
}

/* A tensor's initial values depend on the seed and its name alone: models of other sharing,
 * attention, norm or depth agree in what they have in common. */
static void test_initial_values_are_independent(void) {
    ModelConfig config = model_config_tiny();
    Model a, b;
    model_create(&a, &config, 1, 11, ACTS_TRAINING);
    config.attention = ATTENTION_FULL;
    config.norm = NORM_PRE;
    config.layers = 1;
    model_create(&b, &config, 1, 11, ACTS_TRAINING);
    params_init(a.weights, &a.table, &a.config, 5);
    params_init(b.weights, &b.table, &b.config, 5);
    size_t common = 0;
    for (size_t i = 0; i < a.table.count; i++) {
        const Tensor *t = &a.table.items[i], *u = param_table_find(&b.table, t->name);
        if (!u) continue;
        common++;
        CHECK_MSG(!memcmp(a.weights + t->offset, b.weights + u->offset, t->count * sizeof(real)),
                  "%s differs", t->name);
    }
    CHECK_INT(common, 4 + 16 + 5);
    params_init(b.weights, &b.table, &b.config, 6);
    CHECK(memcmp(a.params.token, b.params.token, 37 * 12 * sizeof(real)) != 0);
    model_destroy(&a);
    model_destroy(&b);
}

static void test_too_large_is_refused(void) {
    ModelConfig config = config_base();
    config.vocab = SIZE_MAX / 16;
    ParamTable table;
    Err err = {0};
    CHECK(!param_table_create(&table, &config, &err));
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_STR_CONTAINS(err.msg, "width 768");
    CHECK(table.items == NULL);
    config.vocab = SIZE_MAX / 768 / 32; /* one tensor fits, the sum doesn't */
    config.n = SIZE_MAX / 768 / 16;
    CHECK(!param_table_create(&table, &config, &err));
    param_table_destroy(&table);
}

const Test tests_params[] = {
    {"counts_at_base_size", test_counts_at_base_size, 0},
    {"counts_of_classifiers", test_counts_of_classifiers, 0},
    {"nonuniform_counts", test_nonuniform_counts, 0},
    {"sharing_is_one_tensor", test_sharing_is_one_tensor, 0},
    {"full_attention_has_no_projection", test_full_attention_has_no_projection, 0},
    {"layout", test_layout, 0},
    {"views_match_names", test_views_match_names, 0},
    {"views_of_classifiers", test_views_of_classifiers, 0},
    {"initial_values", test_initial_values, 0},
    {"initial_taps", test_initial_taps, 0},
    {"counts_of_poolings", test_counts_of_poolings, 0},
    {"initial_matrices_differ", test_initial_matrices_differ, 0},
    {"initial_values_are_independent", test_initial_values_are_independent, 0},
    {"too_large_is_refused", test_too_large_is_refused, 0},
    {0},
};
