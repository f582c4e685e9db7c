#include <stdlib.h>

#include "harness.h"
#include "model_fixture.h"
#include "optimizer.h"
#include "rng.h"
#include "tensors.h"
#include "threads.h"

enum { COUNT = 37, BLOCK = 64, UPDATES = 10 };

/* Two tensors in one block: a matrix of COUNT elements and, behind a gap, a vector of as many. */
static ParamTable two_tensors(Tensor items[2]) {
    items[0] = (Tensor){
        .name = "w", .rows = COUNT, .cols = 1, .offset = 0, .count = COUNT, .matrix = true};
    items[1] = (Tensor){.name = "b", .rows = COUNT, .cols = 1, .offset = BLOCK, .count = COUNT};
    return (ParamTable){
        .items = items, .count = 2, .block_reals = 2 * BLOCK, .parameters = 2 * COUNT};
}

static void fill(real *x, uint64_t key, double scale) {
    for (size_t i = 0; i < 2 * BLOCK; i++)
        x[i] = i % BLOCK < COUNT ? (real)(scale * rng_normal(key, i)) : 0;
}

/* Ten updates against the moments written out as sums: m_t = (1-b1) sum b1^(t-s) g_s, v_t alike. */
static void test_adamw_closed_form(void) {
    Tensor items[2];
    ParamTable table = two_tensors(items);
    OptimizerConfig config = {.position_lr = 1,
                              .proj_lr = 1,
                              .name = OPTIMIZER_ADAMW,
                              .betas = {0.9, 0.98},
                              .eps = 1e-6,
                              .weight_decay = 0.1,
                              .decay = DECAY_MATRICES};
    real w[2 * BLOCK], m[2 * BLOCK] = {0}, v[2 * BLOCK] = {0}, g[UPDATES][2 * BLOCK];
    double want[2 * BLOCK];
    fill(w, rng_key(test_seed(), RNG_TEST, 1, 0), 1);
    for (size_t i = 0; i < 2 * BLOCK; i++) want[i] = w[i];
    for (size_t t = 1; t <= UPDATES; t++) {
        double lr = 0.01 * (double)t, scale = t % 2 ? 0.5 : 1;
        fill(g[t - 1], rng_key(test_seed(), RNG_TEST, 2, t), 1);
        optimizer_step(w, m, v, g[t - 1], &table, &config, lr, scale, t);
        for (size_t i = 0; i < 2 * BLOCK; i++) {
            double mt = 0, vt = 0;
            for (size_t s = 1; s <= t; s++) {
                double gs = (double)g[s - 1][i] * (s % 2 ? 0.5 : 1);
                mt += 0.1 * pow(0.9, (double)(t - s)) * gs;
                vt += 0.02 * pow(0.98, (double)(t - s)) * gs * gs;
            }
            mt /= 1 - pow(0.9, (double)t);
            vt /= 1 - pow(0.98, (double)t);
            want[i] -= lr * (mt / (sqrt(vt) + 1e-6) + (i < BLOCK ? 0.1 : 0) * want[i]);
        }
    }
    /* each update rounds a few times at the size of lr, ten of them: 100 epsilons of the largest
     * weight */
    for (size_t i = 0; i < 2 * BLOCK; i++) CHECK_CLOSE(w[i], want[i], 300 * REAL_EPSILON);
}

/* With betas and eps 0, m/sqrt(v) is the sign of g exactly for small integers: a step of lr
 * whatever the gradient's size. */
static void test_adamw_is_sign_without_memory(void) {
    Tensor items[2];
    ParamTable table = two_tensors(items);
    OptimizerConfig config = {
        .position_lr = 1, .proj_lr = 1, .name = OPTIMIZER_ADAMW, .decay = DECAY_MATRICES};
    real w[2 * BLOCK] = {0}, m[2 * BLOCK] = {0}, v[2 * BLOCK] = {0}, g[2 * BLOCK] = {0};
    for (size_t i = 0; i < COUNT; i++)
        g[i] = g[BLOCK + i] = (real)((i % 2 ? -1 : 1) * (double)(1 + i));
    for (uint64_t t = 1; t <= 3; t++) optimizer_step(w, m, v, g, &table, &config, 0.25, 1, t);
    for (size_t i = 0; i < COUNT; i++) {
        CHECK_CLOSE(w[i], i % 2 ? 0.75 : -0.75, 0);
        CHECK_CLOSE(w[BLOCK + i], i % 2 ? 0.75 : -0.75, 0);
    }
    for (size_t i = COUNT; i < BLOCK; i++)
        CHECK(w[i] == 0 && m[i] == 0 && v[i] == 0); /* the gap stays zero */
}

/* Without gradient only decay moves a weight: by the factor 1 - lr * weight_decay. */
static void test_decay_targets(void) {
    static const struct {
        OptimizerName name;
        DecayTarget target;
    } cases[] = {
        {OPTIMIZER_ADAMW, DECAY_MATRICES},
        {OPTIMIZER_ADAMW, DECAY_ALL},
        {OPTIMIZER_SGD, DECAY_MATRICES},
        {OPTIMIZER_SGD, DECAY_ALL},
    };
    Tensor items[2];
    ParamTable table = two_tensors(items);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        OptimizerConfig config = {.position_lr = 1,
                                  .proj_lr = 1,
                                  .name = cases[c].name,
                                  .betas = {0.9, 0.98},
                                  .eps = 1e-6,
                                  .weight_decay = 0.5,
                                  .decay = cases[c].target};
        real w[2 * BLOCK], m[2 * BLOCK] = {0}, v[2 * BLOCK] = {0}, g[2 * BLOCK] = {0};
        for (size_t i = 0; i < 2 * BLOCK; i++) w[i] = 1;
        optimizer_step(w, m, v, g, &table, &config, 0.5, 1, 1);
        CHECK_CLOSE(w[0], 0.75, 0);
        CHECK_CLOSE(w[BLOCK], cases[c].target == DECAY_ALL ? 0.75 : 1, 0);
    }
}

static void test_sgd_momentum(void) {
    Tensor items[2];
    ParamTable table = two_tensors(items);
    OptimizerConfig config = {
        .position_lr = 1, .proj_lr = 1, .name = OPTIMIZER_SGD, .momentum = 0.5};
    real w[2 * BLOCK] = {0}, m[2 * BLOCK] = {0}, g[2 * BLOCK];
    for (size_t i = 0; i < 2 * BLOCK; i++) g[i] = 4;
    for (uint64_t t = 1; t <= 3; t++) optimizer_step(w, m, NULL, g, &table, &config, 0.25, 0.5, t);
    /* m = 2, 3, 3.5: 0.25 * 8.5 */
    CHECK_CLOSE(w[0], -2.125, 0);
    CHECK_CLOSE(w[BLOCK + COUNT - 1], -2.125, 0);
}

static void test_frozen_stays(void) {
    Tensor items[2];
    ParamTable table = two_tensors(items);
    items[0].frozen = true;
    OptimizerConfig config = {.position_lr = 1,
                              .proj_lr = 1,
                              .name = OPTIMIZER_ADAMW,
                              .betas = {0.9, 0.98},
                              .eps = 1e-6,
                              .weight_decay = 0.5,
                              .decay = DECAY_ALL};
    real w[2 * BLOCK], m[2 * BLOCK] = {0}, v[2 * BLOCK] = {0}, g[2 * BLOCK];
    for (size_t i = 0; i < 2 * BLOCK; i++) w[i] = g[i] = 1;
    optimizer_step(w, m, v, g, &table, &config, 0.5, 1, 1);
    CHECK_CLOSE(w[3], 1, 0);
    CHECK(w[BLOCK + 3] != 1);
}

/* Tensors of more elements than one thread takes alone, a frozen one between them: the same bytes
 * whatever the thread count. */
static void test_any_thread_count(void) {
    enum { LARGE = 40003, SMALL = 1005, GAP = 64, STEPS = 3 };
    enum { SECOND = (LARGE / GAP + 1) * GAP, THIRD = SECOND + (SMALL / GAP + 1) * GAP };
    enum { ALL = THIRD + (LARGE / GAP + 1) * GAP };
    Tensor items[3] = {
        {.name = "a", .rows = LARGE, .cols = 1, .count = LARGE, .matrix = true},
        {.name = "b", .rows = SMALL, .cols = 1, .count = SMALL, .offset = SECOND, .frozen = true},
        {.name = "c", .rows = LARGE, .cols = 1, .count = LARGE, .offset = THIRD},
    };
    const ParamTable table = {
        .items = items, .count = 3, .block_reals = ALL, .parameters = 2 * LARGE + SMALL};
    static const OptimizerName names[] = {OPTIMIZER_ADAMW, OPTIMIZER_SGD};
    real *g = tensor_normal(ALL, 1), *start = tensor_normal(ALL, 1);
    for (size_t n = 0; n < 2; n++) {
        const OptimizerConfig config = {.position_lr = 1,
                                        .proj_lr = 1,
                                        .name = names[n],
                                        .betas = {0.9, 0.98},
                                        .eps = 1e-6,
                                        .momentum = 0.9,
                                        .weight_decay = 0.1,
                                        .decay = DECAY_MATRICES};
        real *w[3], *m[3], *v[3];
        for (size_t t = 0; t < 3; t++) {
            w[t] = tensor_copy(start, ALL);
            m[t] = tensor_filled(ALL, 0);
            v[t] = tensor_filled(ALL, 0);
            threads_set(t + 1);
            for (uint64_t step = 1; step <= STEPS; step++)
                optimizer_step(w[t], m[t], v[t], g, &table, &config, 0.01, 0.5, step);
            CHECK_SAME(w[t], w[0], ALL);
            CHECK_SAME(m[t], m[0], ALL);
            CHECK_SAME(v[t], v[0], ALL);
            CHECK_SAME(w[t] + SECOND, start + SECOND, SMALL);
            for (size_t i = 0; i < LARGE; i++) { /* no element is passed over */
                if (!CHECK(m[t][i] != 0 && m[t][THIRD + i] != 0)) break;
            }
        }
    }
    tensors_free();
}

/* position_lr and proj_lr: the update and the decay of position embeddings, and of E and F, times
 * that share; every other tensor, and the moments of all, as without them. */
static void test_shares_of_the_rate(void) {
    static const Init inits[] = {INIT_NORMAL, INIT_POSITION, INIT_PROJECTION, INIT_ZERO, INIT_ONE};
    static const double shares[][2] = {{0.25, 1}, {1, 0.5}, {0, 2}};
    enum { TENSORS = 5, ALL = TENSORS * BLOCK };
    Tensor items[TENSORS];
    for (size_t i = 0; i < TENSORS; i++)
        items[i] = (Tensor){.offset = i * BLOCK, .count = COUNT, .matrix = true, .init = inits[i]};
    const ParamTable table = {.items = items, .count = TENSORS, .block_reals = ALL};
    real *start = tensor_normal(ALL, 1), *g = tensor_normal(ALL, 1);
    for (size_t v = 0; v < 6; v++) {
        OptimizerConfig config = {.name = v % 2 ? OPTIMIZER_SGD : OPTIMIZER_ADAMW,
                                  .position_lr = 1,
                                  .proj_lr = 1,
                                  .betas = {0.9, 0.98},
                                  .eps = 1e-6,
                                  .momentum = 0.9,
                                  .weight_decay = 0.5};
        real *w[2], *m[2], *s[2];
        for (size_t run = 0; run < 2; run++) {
            w[run] = tensor_copy(start, ALL);
            m[run] = tensor_filled(ALL, 0);
            s[run] = tensor_filled(ALL, 0);
            optimizer_step(w[run], m[run], s[run], g, &table, &config, 0.1, 0.5, 1);
            config.position_lr = shares[v / 2][0];
            config.proj_lr = shares[v / 2][1];
        }
        CHECK_SAME(m[1], m[0], ALL);
        CHECK_SAME(s[1], s[0], ALL);
        for (size_t i = 0; i < ALL; i++) {
            Init init = inits[i / BLOCK];
            double share = init == INIT_POSITION     ? config.position_lr
                           : init == INIT_PROJECTION ? config.proj_lr
                                                     : 1;
            double change = (double)w[1][i] - (double)start[i];
            double whole = (double)w[0][i] - (double)start[i];
            /* weights of up to 4 round three times */
            CHECK_CLOSE(change, share * whole, 16 * REAL_EPSILON);
            if (i % BLOCK < COUNT) CHECK(whole != 0);
        }
    }
    tensors_free();
}

/* Which tensors of a model these are. */
static void test_shares_by_name(void) {
    static const OptimizerConfig config = {
        .name = OPTIMIZER_SGD, .position_lr = 0.25, .proj_lr = 0.5};
    for (size_t v = 0; v < 6; v++) {
        ModelConfig model = model_config_tiny();
        model.scope = (Scope)(v % 3);
        model.tie_kv = v / 3;
        Model m;
        model_create(&m, &model, 1, 1, ACTS_INFERENCE);
        size_t count = m.table.block_reals, positions = 0, projections = 0;
        real *w = tensor_filled(count, 0), *moment = tensor_filled(count, 0);
        optimizer_step(w, moment, NULL, tensor_filled(count, 1), &m.table, &config, 1, 1, 1);
        for (size_t i = 0; i < m.table.count; i++) {
            const Tensor *t = &m.table.items[i];
            bool is_position = !strcmp(t->name, "position");
            bool is_projection = strstr(t->name, "seq_proj") != NULL;
            double rate = is_position ? 0.25 : is_projection ? 0.5 : 1;
            positions += is_position;
            projections += is_projection;
            for (size_t j = 0; j < t->count; j++) CHECK_CLOSE(w[t->offset + j], -rate, 0);
        }
        CHECK_INT(positions, 1);
        CHECK_INT(projections, (model.tie_kv ? 1 : 2) * (model.scope == SCOPE_MODEL ? 1 : 2));
        model_destroy(&m);
    }
    tensors_free();
}

static void test_norm_and_clip(void) {
    Tensor items[2];
    ParamTable table = two_tensors(items);
    real g[2 * BLOCK] = {0};
    g[3] = 3;
    g[BLOCK] = -4;
    CHECK_CLOSE(optimizer_grad_norm(g, &table), 5, 1e-15);
    CHECK_CLOSE(optimizer_clip_scale(5, 1), 0.2, 1e-16);
    CHECK_CLOSE(optimizer_clip_scale(0.5, 1), 1, 0);
    CHECK_CLOSE(optimizer_clip_scale(5, 0), 1, 0);
    g[BLOCK + 1] = (real)NAN;
    CHECK(isnan(optimizer_grad_norm(g, &table)));
    g[BLOCK + 1] = (real)INFINITY;
    CHECK(isinf(optimizer_grad_norm(g, &table)));
    g[BLOCK + 1] = (real)1e30; /* its square overflows float, not the sum */
    CHECK_CLOSE(optimizer_grad_norm(g, &table) / 1e30, 1, 1e-6);
}

const Test tests_optimizer[] = {
    {"adamw_closed_form", test_adamw_closed_form, 0},
    {"adamw_is_sign_without_memory", test_adamw_is_sign_without_memory, 0},
    {"decay_targets", test_decay_targets, 0},
    {"sgd_momentum", test_sgd_momentum, 0},
    {"frozen_stays", test_frozen_stays, 0},
    {"any_thread_count", test_any_thread_count, 0},
    {"shares_of_the_rate", test_shares_of_the_rate, 0},
    {"shares_by_name", test_shares_by_name, 0},
    {"norm_and_clip", test_norm_and_clip, 0},
    {0},
};
