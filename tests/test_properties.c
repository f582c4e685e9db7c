/* Properties of a training step as a whole: what its gradients may and may not depend on. */
#include <stdlib.h>

#include "harness.h"
#include "model_fixture.h"
#include "optimizer.h"

/* Of gradients relative to each tensor's largest, but not less than a share of the largest of all.
 * What differs is rounding: another blocking of the products, another order of association.  At
 * initial weights the share is 0.001 (measured: 5e-7), at rough ones, which magnify rounding, 0.01
 * (measured: 2e-5 over several seeds and BLAS kernels). */
#ifdef REAL_IS_DOUBLE
static const double TOL = 1e-13, TOL_ROUGH = 1e-12;
#else
static const double TOL = 1e-6, TOL_ROUGH = 5e-5;
#endif

enum { SHARINGS = 6, VARIANTS = SHARINGS + 1 + MODEL_POOLINGS, C = 12, N = 11, V = 37 };

/* All six sharings, full attention and poolings, post and pre-norm in turn; dropout on. */
static ModelConfig config_variant(size_t i) {
    ModelConfig config = model_config_tiny();
    config.dropout = 0.15;
    config.attention_dropout = 0.2;
    config.norm = i % 2 ? NORM_POST : NORM_PRE;
    config.scope = (Scope)(i / 2 % 3);
    config.tie_kv = i % 2;
    if (i == SHARINGS) config.attention = ATTENTION_FULL;
    if (i > SHARINGS) model_set_pooling(&config, i - SHARINGS - 1);
    return config;
}

/* Adding to a key bias changes no softmax where it adds the same to all keys. */
static bool is_without_effect(const Tensor *tensor, const ModelConfig *config) {
    bool same_for_all = config->attention == ATTENTION_FULL ||
                        (model_pools(config) && config->projection != PROJECTION_CONV);
    return same_for_all && strstr(tensor->name, ".k_b");
}

typedef enum Weights { INITIAL, ROUGH } Weights;

static double tolerance(Weights weights) {
    return weights == INITIAL ? TOL : TOL_ROUGH;
}

static void check_gradients(const Model *a, const Model *b, Weights weights) {
    check_grads_equal(a, b, weights == INITIAL ? 0.001 : 0.01, tolerance(weights));
}

static void create(Model *out, const ModelConfig *config, size_t max_B, size_t max_total,
                   Weights weights) {
    model_create(out, config, max_B, max_total, ACTS_TRAINING);
    if (weights == INITIAL) params_init(out->weights, &out->table, &out->config, test_seed());
}

/* Batches of 8, 4, 2 and 1 of the same sequences add up to the same gradient when all divide by
 * the whole batch's masked rows. */
static void check_micro_batches(const ModelConfig *config, const Batch *all, Weights weights) {
    Model whole, parts;
    create(&whole, config, all->B, all->total, weights);
    create(&parts, config, all->B, all->total, weights);
    double loss = model_backward(&whole, all, 1 / (double)all->masked);
    for (size_t micro = 1; micro < all->B; micro *= 2) {
        double sum = 0;
        model_zero_grads(&parts);
        for (size_t first = 0; first < all->B; first += micro) {
            Batch part;
            batch_slice(&part, all, first, micro);
            sum += model_backward(&parts, &part, 1 / (double)all->masked);
            model_batch_destroy(&part);
        }
        CHECK_CLOSE(sum / loss, 1, TOL);
        check_gradients(&parts, &whole, weights);
    }
    model_destroy(&whole);
    model_destroy(&parts);
}

static void test_micro_batches_add_up(void) {
    const size_t lengths[] = {3, N, 1, 6, 2, 10, 5, 4};
    Batch all;
    model_batch_create(&all, lengths, 8, V, test_seed());
    for (size_t i = 0; i < VARIANTS; i++) {
        ModelConfig config = config_variant(i);
        check_micro_batches(&config, &all, INITIAL);
        check_micro_batches(&config, &all, ROUGH);
    }
    model_batch_destroy(&all);
}

/* Loss, hidden states and gradients of sequence b alone and among mates none of whose tokens is
 * predicted. */
static void check_alone(Model *among, Model *single, const size_t *lengths, size_t B, size_t b,
                        Weights weights) {
    Batch all, alone;
    model_batch_create(&all, lengths, B, V, test_seed());
    batch_slice(&alone, &all, b, 1);
    all.masked = alone.masked;
    for (size_t r = 0; r < alone.masked; r++) {
        all.masked_rows[r] = alone.masked_rows[r] + (uint32_t)all.start[b];
        all.labels[r] = alone.labels[r];
    }
    model_zero_grads(among);
    model_zero_grads(single);
    double loss = model_backward(single, &alone, 1);
    CHECK_CLOSE(model_backward(among, &all, 1) / loss, 1, tolerance(weights));
    double error =
        array_error(among->acts.hidden + all.start[b] * C, single->acts.hidden, lengths[b] * C);
    CHECK_MSG(error <= tolerance(weights), "hidden states of sequence %zu: error %.2e", b, error);
    check_gradients(among, single, weights);
    model_batch_destroy(&all);
    model_batch_destroy(&alone);
}

static void test_batch_mates_do_not_matter(void) {
    const size_t lengths[] = {3, N, 1, 6, 2, 10, 5, 4};
    enum { B = 8, TOTAL = 42 };
    for (size_t i = 0; i < VARIANTS; i++) {
        for (Weights weights = INITIAL; weights <= ROUGH; weights++) {
            ModelConfig config = config_variant(i);
            Model among, single;
            create(&among, &config, B, TOTAL, weights);
            create(&single, &config, B, TOTAL, weights);
            for (size_t b = 0; b < B; b++) check_alone(&among, &single, lengths, B, b, weights);
            model_destroy(&among);
            model_destroy(&single);
        }
    }
}

/* Every element of every trainable tensor matters: with all positions and all tokens in the
 * batch none has a zero gradient.  Frozen tensors have none. */
static void test_every_parameter_gets_a_gradient(void) {
    const size_t lengths[] = {N, N, N, N, 2, 3};
    enum { B = 6, TOTAL = 49 };
    Batch batch;
    model_batch_create(&batch, lengths, B, V, test_seed());
    for (size_t i = 0; i < VARIANTS + SHARINGS; i++) {
        ModelConfig config = config_variant(i % VARIANTS);
        if (i >= VARIANTS) config.projection = PROJECTION_FIXED;
        config.dropout = config.attention_dropout = 0;
        Model m;
        model_create(&m, &config, B, TOTAL, ACTS_TRAINING);
        model_backward(&m, &batch, 1);
        for (size_t t = 0; t < m.table.count; t++) {
            const Tensor *tensor = &m.table.items[t];
            size_t zeros = 0;
            for (size_t j = 0; j < tensor->count; j++) zeros += m.grads[tensor->offset + j] == 0;
            if (is_without_effect(tensor, &config)) continue;
            CHECK_MSG(zeros == (tensor->frozen ? tensor->count : 0),
                      "variant %zu: %zu of %zu gradients of %s are zero", i, zeros, tensor->count,
                      tensor->name);
        }
        model_destroy(&m);
    }
    model_batch_destroy(&batch);
}

/* Gaps between tensors stay zero: norms and updates run over whole blocks. */
static void test_gaps_stay_zero(void) {
    const size_t lengths[] = {N, 4};
    Batch batch;
    model_batch_create(&batch, lengths, 2, V, test_seed());
    for (size_t i = 0; i < VARIANTS; i++) {
        ModelConfig config = config_variant(i);
        Model m;
        model_create(&m, &config, 2, 15, ACTS_TRAINING);
        model_backward(&m, &batch, 1);
        for (size_t t = 0; t < m.table.count; t++) {
            size_t end = m.table.items[t].offset + m.table.items[t].count;
            size_t next = t + 1 < m.table.count ? m.table.items[t + 1].offset : m.table.block_reals;
            for (size_t j = end; j < next; j++)
                CHECK_MSG(m.grads[j] == 0 && m.weights[j] == 0, "after %s", m.table.items[t].name);
        }
        model_destroy(&m);
    }
    model_batch_destroy(&batch);
}

static void copy_values(real *to, const real *from, size_t count) {
    memcpy(to, from, count * sizeof(real));
}

static void add_values(real *to, const real *from, size_t count) {
    for (size_t j = 0; j < count; j++) to[j] += from[j];
}

/* Between the matrices of a model without sharing and their places in the shared model's block:
 * spreads the shared weights over the copies, or gathers the copies' gradients. */
typedef enum Direction { SPREAD_WEIGHTS, GATHER_GRADIENTS } Direction;

static void between_copies(Model *own, Model *shared, Direction direction) {
    const ModelConfig *config = &shared->config;
    for (size_t l = 0; l < config->layers; l++) {
        size_t size = config->k[l] * N;
        for (size_t h = 0; h < config->heads; h++) {
            size_t own_at = h * size, at = config->scope == SCOPE_HEAD ? own_at : 0;
            if (direction == SPREAD_WEIGHTS) {
                copy_values(own->params.layers[l].seq_proj_k + own_at,
                            shared->params.layers[l].seq_proj_k + at, size);
                copy_values(own->params.layers[l].seq_proj_v + own_at,
                            shared->params.layers[l].seq_proj_v + at, size);
            } else {
                add_values(shared->d_params.layers[l].seq_proj_k + at,
                           own->d_params.layers[l].seq_proj_k + own_at, size);
                add_values(shared->d_params.layers[l].seq_proj_v + at,
                           own->d_params.layers[l].seq_proj_v + own_at, size);
            }
        }
    }
}

/* A model without sharing whose matrices are equal is the shared model, and the gradient of a
 * shared matrix is the sum of the gradients of its copies. */
static void test_shared_gradient_is_the_sum(void) {
    const size_t lengths[] = {N, 2, 10, 5, 1, 6};
    enum { B = 6, TOTAL = 35 };
    Batch batch;
    model_batch_create(&batch, lengths, B, V, test_seed());
    for (size_t i = 1; i < SHARINGS; i++) {
        ModelConfig config = config_variant(i), unshared = config;
        unshared.scope = SCOPE_HEAD;
        unshared.tie_kv = false;
        Model shared, own, sum;
        create(&shared, &config, B, TOTAL, ROUGH);
        create(&own, &unshared, B, TOTAL, ROUGH);
        create(&sum, &config, B, TOTAL, ROUGH); /* the copies' gradients in the shared layout */
        between_copies(&own, &shared, SPREAD_WEIGHTS);
        double loss = model_backward(&own, &batch, 1);
        CHECK_CLOSE(model_backward(&shared, &batch, 1) / loss, 1, TOL_ROUGH);
        for (size_t t = 0; t < shared.table.count; t++) {
            const Tensor *tensor = &shared.table.items[t];
            if (tensor->init == INIT_PROJECTION) continue;
            copy_values(sum.grads + tensor->offset, model_grad(&own, tensor->name), tensor->count);
        }
        between_copies(&own, &sum, GATHER_GRADIENTS);
        check_gradients(&shared, &sum, ROUGH);
        model_destroy(&sum);
        model_destroy(&own);
        model_destroy(&shared);
    }
    model_batch_destroy(&batch);
}

static void train(Model *m, const Batch *batch, uint64_t steps) {
    OptimizerConfig adamw = {.position_lr = 1,
                             .proj_lr = 1,
                             .name = OPTIMIZER_ADAMW,
                             .betas = {0.9, 0.98},
                             .eps = 1e-6,
                             .weight_decay = 0.01,
                             .decay = DECAY_MATRICES};
    real *moments = calloc(2 * m->table.block_reals, sizeof *moments);
    REQUIRE(moments != NULL);
    for (uint64_t step = 1; step <= steps; step++) {
        model_zero_grads(m);
        model_backward(m, batch, 1 / (double)batch->masked);
        optimizer_step(m->weights, moments, moments + m->table.block_reals, m->grads, &m->table,
                       &adamw, 0.01, 1, step);
    }
    free(moments);
}

/* A model that learns at all can learn one small batch by heart, in every sharing; every
 * trainable tensor moves, and frozen matrices stay what they are. */
static void test_overfits_one_batch(void) {
    const size_t lengths[] = {N, 7, 4, 2};
    enum { STEPS = 150 };
    Batch batch;
    model_batch_create(&batch, lengths, 4, V, test_seed());
    for (size_t i = 0; i <= VARIANTS; i++) {
        ModelConfig config = config_variant(i % VARIANTS);
        if (i == VARIANTS) config.projection = PROJECTION_FIXED;
        config.dropout = config.attention_dropout = 0;
        Model m, start;
        create(&m, &config, 4, 24, INITIAL);
        create(&start, &config, 4, 24, INITIAL);
        train(&m, &batch, STEPS);
        double loss = model_loss(&m, &batch);
        CHECK_MSG(loss < 0.01, "variant %zu: loss %g after %d steps", i, loss, STEPS);
        for (size_t t = 0; t < m.table.count; t++) {
            const Tensor *tensor = &m.table.items[t];
            if (is_without_effect(tensor, &config)) continue;
            bool same = !memcmp(m.weights + tensor->offset, start.weights + tensor->offset,
                                tensor->count * sizeof(real));
            CHECK_MSG(same == tensor->frozen, "variant %zu: %s %s", i, tensor->name,
                      same ? "did not move" : "moved");
        }
        model_destroy(&m);
        model_destroy(&start);
    }
    model_batch_destroy(&batch);
}

const Test tests_properties[] = {
    {"micro_batches_add_up", test_micro_batches_add_up, 0},
    {"batch_mates_do_not_matter", test_batch_mates_do_not_matter, 0},
    {"every_parameter_gets_a_gradient", test_every_parameter_gets_a_gradient, 0},
    {"gaps_stay_zero", test_gaps_stay_zero, 0},
    {"shared_gradient_is_the_sum", test_shared_gradient_is_the_sum, 0},
    {"overfits_one_batch", test_overfits_one_batch, 0},
    {0},
};
