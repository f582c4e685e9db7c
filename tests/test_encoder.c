/* What must hold for the encoder whatever its weights: equalities between models, batches,
 * orders of computation and builds. */
#include "encoder.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"
#include "layer_keys.h"
#include "model_fixture.h"

/* Relative to the largest element.  Two ways of computing the same thing differ by rounding
 * alone; in float a few units of 2^-24 grow through two layers (measured: at most 1.5e-6 between
 * orders of association, 4e-7 among batch mates). */
#ifdef REAL_IS_DOUBLE
static const double TOL_SAME = 1e-13, TOL_FULL = 1e-12, TOL_ORDER = 1e-12, TOL_ORDER_GRAD = 1e-11;
#else
static const double TOL_SAME = 1e-6, TOL_FULL = 1e-5, TOL_ORDER = 5e-6, TOL_ORDER_GRAD = 5e-5;
#endif

static const struct {
    Scope scope;
    bool tie_kv;
} sharings[] = {{SCOPE_HEAD, false}, {SCOPE_HEAD, true},   {SCOPE_LAYER, false},
                {SCOPE_LAYER, true}, {SCOPE_MODEL, false}, {SCOPE_MODEL, true}};
enum { SHARINGS = sizeof sharings / sizeof *sharings, C = 12, N = 11 };
enum { VARIANTS = SHARINGS + 1 + MODEL_POOLINGS };

/* All six sharings, then full attention and poolings; dropout on. */
static ModelConfig config_variant(size_t i) {
    ModelConfig config = model_config_tiny();
    config.dropout = 0.15;
    config.attention_dropout = 0.2;
    config.norm = i % 2 ? NORM_PRE : NORM_POST;
    if (i > SHARINGS) {
        model_set_pooling(&config, i - SHARINGS - 1);
    } else if (i == SHARINGS) {
        config.attention = ATTENTION_FULL;
    } else {
        config.scope = sharings[i].scope;
        config.tie_kv = sharings[i].tie_kv;
    }
    return config;
}

static void forward(Model *m, const Batch *batch) {
    encoder_forward(&m->acts, &m->params, &m->config, batch);
}

/* E = F = identity in every head and layer. */
static void set_identity(Model *m) {
    for (size_t i = 0; i < m->table.count; i++) {
        const Tensor *t = &m->table.items[i];
        if (t->init != INIT_PROJECTION) continue;
        for (size_t r = 0; r < t->rows; r++)
            for (size_t c = 0; c < t->cols; c++)
                m->weights[t->offset + r * t->cols + c] = r % t->cols == c;
    }
}

/* Sequences of length n only: a shorter one has n projected keys, some of them zero, where full
 * attention has fewer. */
static void test_identity_projection_is_full_attention(void) {
    const size_t lengths[] = {N, N, N};
    Batch batch;
    model_batch_create(&batch, lengths, 3, 37, test_seed());
    for (size_t i = 0; i < SHARINGS; i++) {
        Model full, lin;
        ModelConfig config = config_variant(i);
        config.k[0] = config.k[1] = N;
        model_create(&lin, &config, 3, 3 * N, ACTS_TRAINING);
        config.attention = ATTENTION_FULL;
        model_create(&full, &config, 3, 3 * N, ACTS_TRAINING);
        set_identity(&lin);
        double loss_lin = model_backward(&lin, &batch, 1),
               loss_full = model_backward(&full, &batch, 1);
        CHECK_CLOSE(loss_lin / loss_full, 1, TOL_FULL);
        CHECK_ARRAY_CLOSE(lin.acts.hidden, full.acts.hidden, batch.total * C, TOL_FULL);
        for (size_t t = 0; t < full.table.count; t++) {
            const Tensor *tensor = &full.table.items[t];
            if (strstr(tensor->name, ".k_b")) continue; /* zero: rounding only */
            CHECK_ARRAY_CLOSE(model_grad(&lin, tensor->name), full.grads + tensor->offset,
                              tensor->count, 10 * TOL_FULL);
        }
        model_destroy(&full);
        model_destroy(&lin);
    }
    model_batch_destroy(&batch);
}

/* Hidden states of each sequence alone, in twos, and among all, with dropout on. */
static void test_batch_mates_do_not_matter(void) {
    const size_t lengths[] = {3, N, 1, 6, 2, 10, 5, 4};
    enum { B = 8, TOTAL = 42 };
    Batch all, alone;
    model_batch_create(&all, lengths, B, 37, test_seed());
    for (size_t i = 0; i < VARIANTS; i++) {
        ModelConfig config = config_variant(i);
        Model m, one;
        model_create(&m, &config, B, TOTAL, ACTS_TRAINING);
        model_create(&one, &config, B, TOTAL, ACTS_TRAINING);
        forward(&m, &all);
        for (size_t b = 0; b < B; b++) {
            for (size_t mates = 1; mates <= 2 && b + mates <= B; mates++) {
                batch_slice(&alone, &all, b, mates);
                forward(&one, &alone);
                double error =
                    array_error(one.acts.hidden, m.acts.hidden + all.start[b] * C, alone.total * C);
                CHECK_MSG(error <= TOL_ORDER, "variant %zu, sequence %zu and %zu: error %.2e", i, b,
                          mates, error);
                model_batch_destroy(&alone);
            }
        }
        model_destroy(&m);
        model_destroy(&one);
    }
    model_batch_destroy(&all);
}

/* The order of the sequences in the batch changes nothing but their place. */
static void test_places_do_not_matter(void) {
    const size_t lengths[] = {7, 7, 7, 7};
    Batch ab, ba;
    model_batch_create(&ab, lengths, 4, 37, test_seed());
    model_batch_create(&ba, lengths, 4, 37, test_seed());
    for (size_t b = 0; b < 4; b++) {
        memcpy(ba.ids + 7 * (3 - b), ab.ids + 7 * b, 7 * sizeof *ab.ids);
        ba.seq_key[3 - b] = ab.seq_key[b];
    }
    for (size_t i = 0; i < VARIANTS; i++) {
        ModelConfig config = config_variant(i);
        Model m, other;
        model_create(&m, &config, 4, 28, ACTS_TRAINING);
        model_create(&other, &config, 4, 28, ACTS_TRAINING);
        forward(&m, &ab);
        forward(&other, &ba);
        for (size_t b = 0; b < 4; b++)
            CHECK_ARRAY_CLOSE(m.acts.hidden + 7 * b * C, other.acts.hidden + 7 * (3 - b) * C, 7 * C,
                              TOL_ORDER);
        model_destroy(&m);
        model_destroy(&other);
    }
    model_batch_destroy(&ab);
    model_batch_destroy(&ba);
}

/* Dropout depends on the sequence's key, and acts. */
static void test_dropout_follows_the_key(void) {
    const size_t lengths[] = {9, 9};
    Batch batch;
    model_batch_create(&batch, lengths, 2, 37, test_seed());
    memcpy(batch.ids + 9, batch.ids, 9 * sizeof *batch.ids);
    for (size_t site = 0; site < 2; site++) {
        ModelConfig config = config_variant(2);
        *(site ? &config.dropout : &config.attention_dropout) = 0;
        Model m;
        model_create(&m, &config, 2, 18, ACTS_TRAINING);
        forward(&m, &batch);
        CHECK(array_error(m.acts.hidden, m.acts.hidden + 9 * C, 9 * C) > 0.01);
        batch.seq_key[1] = batch.seq_key[0];
        forward(&m, &batch);
        CHECK_ARRAY_CLOSE(m.acts.hidden, m.acts.hidden + 9 * C, 9 * C, TOL_SAME);
        batch.seq_key[1] ^= 1;
        model_destroy(&m);
    }
    model_batch_destroy(&batch);
}

/* Compress-first against project-first: one model with a matrix per layer, the other with the
 * same matrix for each head, which excludes compress-first. */
static void test_orders_agree_across_scopes(void) {
    const size_t lengths[] = {N, 10, 6, 1};
    Batch batch;
    model_batch_create(&batch, lengths, 4, 37, test_seed());
    for (size_t tie = 0; tie < 2; tie++) {
        ModelConfig config = config_variant(2);
        config.tie_kv = tie;
        Model layer, head;
        model_create(&layer, &config, 4, 28, ACTS_TRAINING);
        CHECK(layer_compresses_first(&config, 0, batch.B, batch.total) &&
              layer_compresses_first(&config, 1, batch.B, batch.total));
        config.scope = SCOPE_HEAD;
        model_create(&head, &config, 4, 28, ACTS_TRAINING);
        CHECK(!layer_compresses_first(&config, 0, batch.B, batch.total));
        const char *names[] = {"layer0.seq_proj_k", "layer0.seq_proj_v", "layer1.seq_proj_k",
                               "layer1.seq_proj_v"};
        for (size_t i = 0; i < 4; i += 1 + tie) {
            size_t count = param_table_find(&layer.table, names[i])->count;
            for (size_t h = 0; h < 3; h++)
                memcpy(model_weight(&head, names[i]) + h * count, model_weight(&layer, names[i]),
                       count * sizeof(real));
        }
        double loss = model_backward(&head, &batch, 1);
        CHECK_CLOSE(model_backward(&layer, &batch, 1) / loss, 1, TOL_ORDER);
        CHECK_ARRAY_CLOSE(layer.acts.hidden, head.acts.hidden, batch.total * C, TOL_ORDER);
        for (size_t i = 0; i < layer.table.count; i++) {
            const Tensor *t = &layer.table.items[i];
            real *wanted = model_grad(&head, t->name);
            if (t->init ==
                INIT_PROJECTION) /* the shared matrix gets the sum of the heads' gradients */
                for (size_t j = 0; j < t->count; j++)
                    wanted[j] += wanted[t->count + j] + wanted[2 * t->count + j];
            CHECK_ARRAY_CLOSE(layer.grads + t->offset, wanted, t->count, TOL_ORDER_GRAD);
        }
        model_destroy(&layer);
        model_destroy(&head);
    }
    model_batch_destroy(&batch);
}

/* The same two sequences in a batch that compresses first and in one that, for its many short
 * sequences, doesn't. */
static void test_orders_agree_across_batches(void) {
    const size_t lengths[] = {N, 10, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1};
    enum { B = 12, TOTAL = 32 };
    Batch many, few;
    model_batch_create(&many, lengths, B, 37, test_seed());
    batch_slice(&few, &many, 0, 2);
    for (size_t i = 2; i < SHARINGS; i++) {
        ModelConfig config = config_variant(i);
        Model m;
        model_create(&m, &config, B, TOTAL, ACTS_TRAINING);
        for (size_t l = 0; l < 2; l++) {
            CHECK(!layer_compresses_first(&config, l, many.B, many.total));
            CHECK(layer_compresses_first(&config, l, few.B, few.total));
        }
        real kept[(N + 10) * C];
        forward(&m, &many);
        memcpy(kept, m.acts.hidden, sizeof kept);
        forward(&m, &few);
        CHECK_ARRAY_CLOSE(m.acts.hidden, kept, (N + 10) * C, TOL_ORDER);
        model_destroy(&m);
    }
    model_batch_destroy(&few);
    model_batch_destroy(&many);
}

/* Under model scope a layer with k_l rows uses the first k_l of the shared matrix: the others
 * don't reach it, and a model whose layers own copies of those rows is the same model. */
static void test_model_scope_takes_first_rows(void) {
    const size_t lengths[] = {N, 8, 3};
    enum { TOTAL = 22 };
    Batch batch;
    model_batch_create(&batch, lengths, 3, 37, test_seed());
    ModelConfig config = model_config_tiny();
    config.k[0] = 3;
    config.k[1] = 5;
    Model shared, own;
    model_create(&own, &config, 3, TOTAL, ACTS_TRAINING);
    config.scope = SCOPE_MODEL;
    model_create(&shared, &config, 3, TOTAL, ACTS_TRAINING);
    real *E = model_weight(&shared, "seq_proj_k"), *F = model_weight(&shared, "seq_proj_v");
    for (size_t l = 0; l < 2; l++) {
        memcpy(own.params.layers[l].seq_proj_k, E, config.k[l] * N * sizeof(real));
        memcpy(own.params.layers[l].seq_proj_v, F, config.k[l] * N * sizeof(real));
    }
    forward(&shared, &batch);
    forward(&own, &batch);
    CHECK_ARRAY_CLOSE(shared.acts.hidden, own.acts.hidden, TOTAL * C, TOL_SAME);

    E[3 * N] += 1;
    F[4 * N] += 1;
    forward(&shared, &batch);
    CHECK_ARRAY_CLOSE(shared.acts.layers[0].sum_ffn, own.acts.layers[0].sum_ffn, TOTAL * C,
                      TOL_SAME);
    CHECK(array_error(shared.acts.layers[1].sum_att, own.acts.layers[1].sum_att, TOTAL * C) > 1e-3);
    model_destroy(&own);
    model_destroy(&shared);
    model_batch_destroy(&batch);
}

/* A sequence of T tokens uses the first T columns of E and F and the first T positions: NaN in
 * the others changes nothing.  (Taps are all used.) */
static void test_columns_beyond_the_sequence_are_unread(void) {
    const size_t lengths[] = {7, 4, 1};
    Batch batch;
    model_batch_create(&batch, lengths, 3, 37, test_seed());
    for (size_t i = 0; i < VARIANTS; i++) {
        ModelConfig config = config_variant(i);
        Model m;
        model_create(&m, &config, 3, 12, ACTS_TRAINING);
        model_backward(&m, &batch, 1);
        double loss = model_loss(&m, &batch);
        for (size_t t = 0; t < m.table.count; t++) {
            const Tensor *tensor = &m.table.items[t];
            real *w = m.weights + tensor->offset, *g = m.grads + tensor->offset;
            bool projection = tensor->init == INIT_PROJECTION && !model_pools(&config),
                 position = !strcmp(tensor->name, "position");
            for (size_t j = 0; j < tensor->count; j++) {
                if (!(projection && j % N >= 7) && !(position && j / C >= 7)) continue;
                w[j] = (real)NAN;
                CHECK(g[j] == 0);
            }
        }
        CHECK(model_loss(&m, &batch) == loss);
        model_destroy(&m);
    }
    model_batch_destroy(&batch);
}

/* Nothing is read that this pass has not written: the pass before it, over a larger batch and with
 * weights that are not numbers, has left NaN in all activations; gradients as in a fresh model. */
static void test_stale_activations_are_unread(void) {
    const size_t lengths[] = {N, 2, 5, 1, 6}, larger[] = {N, N, 6, 5, 3, 2, 2};
    Batch batch, filling;
    model_batch_create(&batch, lengths, 5, 37, test_seed());
    model_batch_create(&filling, larger, 7, 37, test_seed());
    for (size_t i = 0; i < VARIANTS; i++) {
        ModelConfig config = config_variant(i);
        Model m, stale;
        model_create(&m, &config, 5, 25, ACTS_TRAINING);
        model_create(&stale, &config, 7, 40, ACTS_TRAINING);
        double loss = model_backward(&m, &batch, 1);
        for (size_t j = 0; j < stale.table.block_reals; j++) stale.weights[j] = (real)NAN;
        CHECK(isnan(model_backward(&stale, &filling, 1)));
        CHECK(isnan(stale.acts.layers[1].lse[0]) && isnan(stale.acts.d_hidden[40 * C - 1]));
        memcpy(stale.weights, m.weights, m.table.block_reals * sizeof(real));
        model_zero_grads(&stale);
        CHECK(model_backward(&stale, &batch, 1) == loss);
        CHECK(!memcmp(stale.grads, m.grads, m.table.block_reals * sizeof(real)));
        model_destroy(&m);
        model_destroy(&stale);
    }
    model_batch_destroy(&batch);
    model_batch_destroy(&filling);
}

/* Dropout off: training and inference differ in what they keep, not in what they compute. */
static void test_inference_equals_training(void) {
    const size_t lengths[] = {N, 2, 5, 1, 6};
    enum { TOTAL = 25 };
    Batch batch;
    model_batch_create(&batch, lengths, 5, 37, test_seed());
    for (size_t i = 0; i < VARIANTS; i++) {
        ModelConfig config = config_variant(i);
        Model train, infer;
        model_create(&infer, &config, 5, TOTAL, ACTS_INFERENCE); /* its dropout is off by itself */
        config.dropout = config.attention_dropout = 0;
        model_create(&train, &config, 5, TOTAL, ACTS_TRAINING);
        double loss = model_loss(&train, &batch);
        CHECK(model_loss(&infer, &batch) == loss);
        CHECK(!memcmp(infer.acts.hidden, train.acts.hidden, TOTAL * C * sizeof(real)));
        CHECK(infer.acts.arena.used < train.acts.arena.used);
        model_destroy(&train);
        model_destroy(&infer);
    }
    model_batch_destroy(&batch);
}

static void test_activations_bytes(void) {
    for (size_t i = 0; i < VARIANTS; i++) {
        ModelConfig config = config_variant(i);
        for (size_t training = 0; training < 2; training++) {
            ActMode mode = training ? ACTS_TRAINING : ACTS_INFERENCE;
            size_t bytes = 0;
            CHECK(activations_bytes(&bytes, &config, 5, 40, mode, NULL));
            Activations acts;
            REQUIRE(activations_create(&acts, &config, 5, 40, mode, NULL));
            CHECK_INT(acts.arena.used, bytes);
            CHECK(!acts.arena.overflow);
            activations_destroy(&acts);
        }
    }
    ModelConfig config = config_variant(2);
    size_t bytes;
    Err err = {0};
    CHECK(!activations_bytes(&bytes, &config, 4, SIZE_MAX / 64, ACTS_TRAINING, &err));
    CHECK_STR_CONTAINS(err.msg, "4 sequences");
    CHECK(!activations_bytes(&bytes, &config, SIZE_MAX / 4, 40, ACTS_TRAINING, &err));
    Activations acts;
    CHECK(!activations_create(&acts, &config, 4, SIZE_MAX / 64, ACTS_TRAINING, &err));
    activations_destroy(&acts);
}

/* A step large enough for every kernel to share it out; initial weights. */
static void step_with_threads(Model *out, double *loss, const ModelConfig *config,
                              const Batch *batch, size_t threads) {
    model_create_threads(out, config, batch->B, batch->total, ACTS_TRAINING, threads);
    params_init(out->weights, &out->table, &out->config, test_seed());
    *loss = model_backward(out, batch, 1 / (double)batch->masked);
}

/* The result is a function of the thread count, and of that only in its rounding. */
static void test_threads(void) {
    const size_t lengths[] = {80, 75, 80, 71, 66, 80, 2, 61, 80, 64, 80, 77};
    enum { B = 12, WIDTH = 128, VOCAB = 500 };
    Batch batch;
    model_batch_create(&batch, lengths, B, VOCAB, test_seed());
    for (size_t i = 0; i < VARIANTS; i += i < SHARINGS ? 2 : 1) {
        ModelConfig config = config_variant(i);
        config.n = 80;
        config.k[0] = config.k[1] = 48;
        config.width = WIDTH;
        config.heads = 4;
        config.ffn = 256;
        config.vocab = VOCAB;
        if (i <= SHARINGS) config.tie_kv = i == 4;
        if (config.projection == PROJECTION_MAX) continue; /* of near values rounding decides */
        Model one, two, again;
        double loss_one, loss_two, loss_again;
        step_with_threads(&one, &loss_one, &config, &batch, 1);
        step_with_threads(&two, &loss_two, &config, &batch, 2);
        step_with_threads(&again, &loss_again, &config, &batch, 2);
        CHECK_CLOSE(loss_two / loss_one, 1, TOL_SAME);
        CHECK_ARRAY_CLOSE(two.acts.hidden, one.acts.hidden, batch.total * WIDTH, TOL_SAME);
        check_grads_equal(&two, &one, 1e-3, 10 * TOL_SAME);
        CHECK(loss_again == loss_two);
        CHECK(!memcmp(again.grads, two.grads, two.table.block_reals * sizeof(real)));
        model_destroy(&one);
        model_destroy(&two);
        model_destroy(&again);
    }
    model_batch_destroy(&batch);
}

/* Lengths that the positions have no room for, and empty sequences, stop the program: callers check
 * their input first. */
static void test_bad_lengths_stop(void) {
    static const size_t cases[][3] = {{4, 12, 3}, {4, 0, 3}, {0, 1, 1}, {2, 11, 12}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fflush(NULL);
        pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            Model model;
            Batch batch;
            ModelConfig config = model_config_tiny();
            model_create(&model, &config, 3, 40, ACTS_INFERENCE);
            model_batch_create(&batch, (const size_t[]){4, 5, 6}, 3, config.vocab, 1);
            for (size_t b = 0; b < 3; b++) batch.start[b + 1] = batch.start[b] + cases[i][b];
            batch.total = batch.start[3];
            REQUIRE(freopen("/dev/null", "w", stderr));
            encoder_forward(&model.acts, &model.params, &config, &batch);
            _exit(0);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK_MSG(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, "lengths %zu %zu %zu: taken",
                  cases[i][0], cases[i][1], cases[i][2]);
    }
}

const Test tests_encoder[] = {
    {"identity_projection_is_full_attention", test_identity_projection_is_full_attention, 0},
    {"batch_mates_do_not_matter", test_batch_mates_do_not_matter, 0},
    {"places_do_not_matter", test_places_do_not_matter, 0},
    {"dropout_follows_the_key", test_dropout_follows_the_key, 0},
    {"orders_agree_across_scopes", test_orders_agree_across_scopes, 0},
    {"orders_agree_across_batches", test_orders_agree_across_batches, 0},
    {"model_scope_takes_first_rows", test_model_scope_takes_first_rows, 0},
    {"columns_beyond_the_sequence_are_unread", test_columns_beyond_the_sequence_are_unread, 0},
    {"stale_activations_are_unread", test_stale_activations_are_unread, 0},
    {"inference_equals_training", test_inference_equals_training, 0},
    {"activations_bytes", test_activations_bytes, 0},
    {"threads", test_threads, 0},
    {"bad_lengths_stop", test_bad_lengths_stop, 0},
    {0},
};
