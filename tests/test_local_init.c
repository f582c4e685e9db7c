/* model.init: the weights, entry by entry. What attention makes of them: test_local_attention.c. */
#include <stdlib.h>

#include "harness.h"
#include "io.h"
#include "model_fixture.h"
#include "rng.h"
#include "threads.h"

static const int single_offsets[] = {-1, 1, -2, 2, -3, 3, -4, 4};

static void create(Model *out, const ModelConfig *config) {
    model_create(out, config, 1, config->n, ACTS_TRAINING);
    params_init(out->weights, &out->table, &out->config, test_seed());
}

enum { N = 24, C = 64, H = 4, D = C / H, PAIRS = 7 };

static ModelConfig config_small(Scope scope, size_t k) {
    return model_config_local(N, C, H, scope, k);
}

static double wanted_entry(const ModelConfig *config, size_t height, size_t l, size_t h, size_t r,
                           size_t t) {
    size_t S = (config->n + height - 1) / height;
    if (config->scope != SCOPE_HEAD) return t / S == r ? 1 / sqrt((double)S) : 0;
    bool is_left_empty = l == 0 && S > 1 && r == height - 1;
    size_t class = (l * config->heads + h) % S;
    return !is_left_empty && t / S == r && t % S == class;
}

/* matrix (height,n) less `normal`, the same without the scheme, is what local_init.h says. */
static void check_matrix(const ModelConfig *config, size_t height, size_t l, size_t h,
                         const real *matrix, const real *normal) {
    size_t wrong = 0;
    for (size_t r = 0; r < height; r++)
        for (size_t t = 0; t < config->n; t++) {
            double added = (double)matrix[r * config->n + t] - (double)normal[r * config->n + t];
            wrong += !test_close(added, wanted_entry(config, height, l, h, r, t), 1e-6);
        }
    CHECK_MSG(wrong == 0, "scope %d, n %zu, height %zu, layer %zu, head %zu: %zu entries wrong",
              config->scope, config->n, height, l, h, wrong);
}

static void check_matrices(ModelConfig *config) {
    Model local, normal;
    config->init = INIT_SCHEME_LOCAL;
    create(&local, config);
    config->init = INIT_SCHEME_NORMAL;
    create(&normal, config);
    for (size_t l = 0; l < config->layers; l++) {
        const LayerParams *a = &local.params.layers[l], *b = &normal.params.layers[l];
        bool is_head = config->scope == SCOPE_HEAD;
        size_t height = config->scope == SCOPE_MODEL ? params_largest_k(config) : config->k[l];
        CHECK((a->seq_proj_k == a->seq_proj_v) == config->tie_kv);
        for (size_t h = 0; h < (is_head ? config->heads : 1); h++) {
            size_t at = h * height * config->n;
            check_matrix(config, height, l, h, a->seq_proj_k + at, b->seq_proj_k + at);
            check_matrix(config, height, l, h, a->seq_proj_v + at, b->seq_proj_v + at);
        }
    }
    model_destroy(&local);
    model_destroy(&normal);
}

static void test_projections(void) {
    static const struct {
        size_t n, k[3], heads;
    } cases[] = {
        {24, {8, 8, 8}, 4},    /* S = 3: classes go on from layer to layer */
        {24, {12, 6, 4}, 4},   /* S = 2, 4, 6: more than there are heads */
        {23, {8, 7, 5}, 4},    /* n is not a multiple */
        {24, {24, 24, 24}, 4}, /* k = n: no row is left out */
        {24, {23, 13, 1}, 2},  /* nearly n; one row only */
        {7, {2, 3, 7}, 8},
    };
    for (size_t v = 0; v < sizeof cases / sizeof *cases * 6; v++) {
        ModelConfig config = config_small((Scope)(v % 3), 1);
        size_t c = v / 6;
        config.tie_kv = v / 3 % 2;
        config.n = cases[c].n;
        config.layers = 3;
        memcpy(config.k, cases[c].k, sizeof cases[c].k);
        config.heads = cases[c].heads;
        config.width = config.heads * LOCAL_INIT_MIN_HEAD;
        config.proj_init_std = v % 2 ? 0.02 : 0; /* the noise stays */
        check_matrices(&config);
    }
}

typedef struct Moments {
    double sum, squares;
    size_t count;
} Moments;

static void add_rows(Moments *moments, const real *w, size_t rows, size_t from) {
    for (size_t r = 0; r < rows; r++)
        for (size_t c = from; c < C; c++) {
            moments->sum += w[r * C + c];
            moments->squares += (double)w[r * C + c] * w[r * C + c];
        }
    moments->count += rows * (C - from);
}

/* N(0, std), to five standard errors. */
static void check_normal(const Moments *moments, double std) {
    double count = (double)moments->count, mean = moments->sum / count;
    CHECK_CLOSE(mean, 0, 5 * std / sqrt(count));
    CHECK_CLOSE(sqrt(moments->squares / count), std, 5 * std / sqrt(2 * count));
}

static void check_embeddings(size_t heads, size_t pairs) {
    ModelConfig config = config_small(SCOPE_LAYER, 8);
    Model m;
    Moments moments = {0};
    config.heads = heads;
    create(&m, &config);
    add_rows(&moments, m.params.token, config.vocab, 2 * pairs);
    check_normal(&moments, 0.1);
    double lowest = acos(-1) / N, radius = 0.1 * sqrt(2);
    for (size_t i = 0; i < config.vocab * C; i++)
        if (i % C < 2 * pairs) CHECK(m.params.token[i] == 0);
    for (size_t t = 0; t < N; t++) {
        const real *x = m.params.position + t * C;
        for (size_t p = 0; p < pairs; p++) { /* from 2.5 radians a position down to pi/n */
            double angle = (double)t * 2.5 * pow(lowest / 2.5, (double)p / (double)(pairs - 1));
            CHECK_CLOSE(x[2 * p], radius * sin(angle), 1e-6);
            CHECK_CLOSE(x[2 * p + 1], radius * cos(angle), 1e-6);
        }
        for (size_t c = 2 * pairs; c < C; c++) CHECK(x[c] == 0);
    }
    model_destroy(&m);
}

static void test_embeddings(void) {
    check_embeddings(8, 3);
    check_embeddings(4, 7);
    check_embeddings(1, 8); /* an eighth of the width, however large the head */
}

/* Heads of one offset have the same W_v, others have not. */
static void check_value_copies(const ModelConfig *config, size_t S) {
    Model m;
    create(&m, config);
    for (size_t l = 0; l < config->layers; l++)
        for (size_t a = 0; a < H; a++)
            for (size_t b = 0; b < a; b++) {
                const real *v = m.params.layers[l].v_w;
                bool same = !memcmp(v + a * D * C, v + b * D * C, D * C * sizeof(real));
                CHECK_MSG(same == ((l * H + a) / S == (l * H + b) / S),
                          "S %zu, layer %zu: heads %zu and %zu", S, l, a, b);
            }
    model_destroy(&m);
}

static void test_values(void) {
    for (size_t scope = 0; scope < 3; scope++) {
        ModelConfig config = config_small((Scope)scope, 8);
        Model m;
        Moments moments = {0};
        create(&m, &config);
        for (size_t l = 0; l < 2; l++) {
            /* heads of one offset are one draw: the first of each, every head elsewhere */
            add_rows(&moments, m.params.layers[l].v_w, scope == SCOPE_HEAD ? D : C, 0);
            for (size_t i = 0; i < C * C; i++) CHECK(m.params.layers[l].out_w[i] == 0);
        }
        check_normal(&moments, 1 / sqrt((double)C));
        model_destroy(&m);
        check_value_copies(&config, scope == SCOPE_HEAD ? 3 : 1);
    }
    ModelConfig config = config_small(SCOPE_HEAD, 12);
    check_value_copies(&config, 2);
    config.attention = ATTENTION_FULL;
    check_value_copies(&config, 1);
}

/* Entry (row, col) of W_q or W_k less the same under init: normal. */
static double added(const real *local, const real *normal, size_t row, size_t col) {
    return (double)local[row * C + col] - (double)normal[row * C + col];
}

static void check_head(const LayerParams *local, const LayerParams *normal, size_t h, double offset,
                       double peak, bool has_sink) {
    double alpha = sqrt(peak * sqrt((double)D) / (2.0 * PAIRS)), bias = sqrt(17 * sqrt((double)D));
    size_t last = h * D + D - 1, wrong = 0;
    for (size_t e = 0; e < D; e++) {
        size_t row = h * D + e, pair = e / 2;
        for (size_t c = 0; c < C; c++) {
            double angle = offset * 2.5 * pow(acos(-1) / N / 2.5, (double)pair / (PAIRS - 1));
            bool is_pair = e < 2 * PAIRS && c / 2 == pair;
            double k = is_pair && c == e ? alpha : 0, q = 0;
            if (is_pair) q = c == e ? alpha * cos(angle) : alpha * sin(e < c ? angle : -angle);
            if (row == last && has_sink) {
                wrong += local->q_w[row * C + c] != 0 || local->k_w[row * C + c] != 0;
                continue;
            }
            wrong += !test_close(added(local->k_w, normal->k_w, row, c), k, 1e-6);
            wrong += !test_close(added(local->q_w, normal->q_w, row, c), q, 1e-6);
        }
        CHECK_CLOSE(local->q_b[row], row == last && has_sink ? bias : 0, 1e-6);
        CHECK_CLOSE(local->k_b[row], row == last && has_sink ? -bias : 0, 1e-6);
    }
    CHECK_MSG(wrong == 0, "head %zu: %zu entries of W_q and W_k", h, wrong);
}

/* W_q and W_k entry by entry; and whatever local_init.h does not name is as under init: normal. */
static void test_queries_keys_and_the_rest(void) {
    static const char *const named[] = {"token", "position", ".q_",     ".k_",
                                        ".v_w",  ".out_w",   "seq_proj"};
    for (size_t S = 1; S <= 4; S *= 2) {
        ModelConfig config = config_small(SCOPE_HEAD, N / S);
        Model local, normal;
        create(&local, &config);
        config.init = INIT_SCHEME_NORMAL;
        create(&normal, &config);
        for (size_t g = 0; g < 2 * H; g++) {
            bool has_sink = S > 1 && g < H;
            check_head(&local.params.layers[g / H], &normal.params.layers[g / H], g % H,
                       single_offsets[g / S], S == 1 || g < H ? 20 : 12, has_sink);
        }
        for (size_t i = 0; i < local.table.count; i++) {
            const Tensor *t = &local.table.items[i];
            size_t n = 0;
            while (n < sizeof named / sizeof *named && !strstr(t->name, named[n])) n++;
            bool same = !memcmp(local.weights + t->offset, normal.weights + t->offset,
                                t->count * sizeof(real));
            CHECK_MSG(same || n < sizeof named / sizeof *named, "%s", t->name);
        }
        model_destroy(&local);
        model_destroy(&normal);
    }
}

/* ---- whatever the scheme ---- */

/* What came out of params_init before there was a choice; element 1 of some tensors, seed 1. */
static void test_normal_is_as_it_was(void) {
    static const struct {
        const char *name;
        double value;
    } golden[] = {
        {"token", 0.00513119716},
        {"position", 0.0123718902},
        {"layer0.q_w", -0.0225645546},
        {"layer0.seq_proj_k", -0.289479047},
        {"layer0.seq_proj_v", 0.0030185224},
        {"layer0.out_w", 0.0270987377},
        {"layer1.v_w", -0.00400216086},
        {"layer1.seq_proj_k", -0.0775607899},
        {"layer1.ff2_w", -0.0248870049},
        {"head_w", -0.00856783707},
        {"layer1.k_b", 0},
        {"layer0.ln1_w", 1},
    };
    ModelConfig config = model_config_tiny();
    config.norm = NORM_PRE;
    Model m;
    create(&m, &config);
    params_init(m.weights, &m.table, &config, 1);
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        double value = model_weight(&m, golden[i].name)[1];
        CHECK_MSG(test_close(value, golden[i].value, 1e-6 * fabs(golden[i].value)), "%s: %.9g",
                  golden[i].name, value);
    }
    for (size_t i = 0; i < m.table.count; i++) {
        const Tensor *t = &m.table.items[i];
        uint64_t key = rng_key(1, RNG_INIT, io_hash(t->name, strlen(t->name)), 0);
        double std = !t->matrix ? 0 : strstr(t->name, "seq_proj") ? 0.1 : 0.02;
        size_t wrong = 0;
        for (size_t j = 0; std > 0 && j < t->count; j++)
            wrong += m.weights[t->offset + j] != (real)(std * rng_normal(key, j));
        CHECK_MSG(wrong == 0, "%s: %zu elements", t->name, wrong);
    }
    model_destroy(&m);
}

static void test_any_thread_count(void) {
    for (size_t scope = 0; scope < 3; scope++) {
        ModelConfig config = config_small((Scope)scope, 8);
        config.proj_init_std = 0.02;
        Model m;
        create(&m, &config);
        size_t bytes = m.table.block_reals * sizeof(real);
        real *first = malloc(bytes);
        REQUIRE(first);
        memcpy(first, m.weights, bytes);
        for (size_t threads = 2; threads <= 5; threads++) {
            threads_set(threads);
            memset(m.weights, 1, bytes);
            params_init(m.weights, &m.table, &m.config, test_seed());
            CHECK(!memcmp(m.weights, first, bytes));
        }
        free(first);
        model_destroy(&m);
    }
}

const Test tests_local_init[] = {
    {"projections", test_projections, 0},
    {"embeddings", test_embeddings, 0},
    {"values", test_values, 0},
    {"queries_keys_and_the_rest", test_queries_keys_and_the_rest, 0},
    {"normal_is_as_it_was", test_normal_is_as_it_was, 0},
    {"any_thread_count", test_any_thread_count, 0},
    {0},
};
