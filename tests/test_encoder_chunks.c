/* Inference takes the rows of a layer in chunks: results are those of the whole batch at once, and
 * what grows with the batch is the residual stream, its LayerNorm (pre-norm), keys and values. */
#include "../src/lab/stored_attention.h"
#include "encoder.h"
#include "harness.h"
#include "model_fixture.h"

#ifdef REAL_IS_DOUBLE
static const double TOL = 1e-12;
#else
static const double TOL = 1e-5;
#endif

enum { N = 1030, C = 12, SEQUENCES = 9, WAYS = 6 + 1 + MODEL_POOLINGS };

/* Longer than a chunk, exactly one, one more; short ones beside and between them. */
static const size_t lengths[SEQUENCES] = {3, 700, 512, 1, 40, 1030, 513, 10, 2};

/* The six sharings, full attention, poolings. */
static ModelConfig config_way(size_t way, NormPlace norm) {
    ModelConfig config = model_config_tiny();
    config.n = N;
    config.k[0] = 65;
    config.k[1] = 40;
    config.norm = norm;
    config.dropout = config.attention_dropout = 0.5; /* inference has none */
    if (way > 6) {
        model_set_pooling(&config, way - 7);
    } else if (way == 6) {
        config.attention = ATTENTION_FULL;
    } else {
        config.scope = (Scope)(way % 3);
        config.tie_kv = way / 3;
    }
    return config;
}

static void check_way(size_t way, NormPlace norm, const Batch *batch, size_t threads) {
    ModelConfig config = config_way(way, norm);
    Model chunks, whole;
    model_create_threads(&chunks, &config, batch->B, batch->total, ACTS_INFERENCE, threads);
    config.dropout = config.attention_dropout = 0;
    model_create_threads(&whole, &config, batch->B, batch->total, ACTS_TRAINING, threads);
    CHECK(chunks.acts.chunk_rows < 700);
    encoder_forward(&chunks.acts, &chunks.params, &chunks.config, batch);
    encoder_forward(&whole.acts, &whole.params, &whole.config, batch);
    CHECK_ARRAY_CLOSE(chunks.acts.hidden, whole.acts.hidden, batch->total * C, TOL);

    /* in the buffers of a training the same to the bit: evaluations give the digits of eval */
    whole.acts.mode = ACTS_INFERENCE;
    encoder_forward(&whole.acts, &whole.params, &whole.config, batch);
    CHECK(!memcmp(chunks.acts.hidden, whole.acts.hidden, batch->total * C * sizeof(real)));
    model_destroy(&chunks);
    model_destroy(&whole);
}

static void test_equal_the_whole_batch(void) {
    Batch batch;
    model_batch_create(&batch, lengths, SEQUENCES, 37, test_seed());
    for (size_t way = 0; way < WAYS; way++)
        for (size_t norm = 0; norm < 2; norm++)
            check_way(way, (NormPlace)norm, &batch, way == 1 ? 2 : 1);
    model_batch_destroy(&batch);
}

/* The baseline of the benchmarks keeps the probabilities of a layer, chunk after chunk. */
static void test_stored_attention(void) {
    ModelConfig config = config_way(6, NORM_PRE);
    Batch batch;
    Model stored_model, blockwise;
    StoredAttention stored;
    model_batch_create(&batch, lengths, SEQUENCES, 37, test_seed());
    model_create(&stored_model, &config, batch.B, batch.total, ACTS_INFERENCE);
    model_create(&blockwise, &config, batch.B, batch.total, ACTS_INFERENCE);
    REQUIRE(stored_attention_create(&stored, &config, batch.B, ACTS_INFERENCE, NULL));
    stored_model.acts.kernel = &stored.kernel;
    encoder_forward(&stored_model.acts, &stored_model.params, &config, &batch);
    encoder_forward(&blockwise.acts, &blockwise.params, &config, &batch);
    CHECK_ARRAY_CLOSE(stored_model.acts.hidden, blockwise.acts.hidden, batch.total * C, TOL);
    for (size_t b = 0; b < batch.B; b++) { /* of the last layer: all rows sum to 1 */
        for (size_t t = 0; t < lengths[b]; t++) {
            const real *row = stored.probabilities + b * config.heads * N * N + t * lengths[b];
            double sum = 0;
            for (size_t j = 0; j < lengths[b]; j++) sum += (double)row[j];
            CHECK_CLOSE(sum, 1, 1e-5);
        }
    }
    stored_attention_destroy(&stored);
    model_destroy(&stored_model);
    model_destroy(&blockwise);
    model_batch_destroy(&batch);
}

/* Bytes that one more token takes where there are many. */
static double bytes_per_token(const ModelConfig *config) {
    size_t few, many, tokens = 1 << 16;
    REQUIRE(activations_bytes(&few, config, 1, tokens, ACTS_INFERENCE, NULL));
    REQUIRE(activations_bytes(&many, config, 1, 2 * tokens, ACTS_INFERENCE, NULL));
    return (double)(many - few) / (double)tokens;
}

static void test_memory_grows_with_the_stream(void) {
    static const struct {
        size_t way;
        NormPlace norm;
        size_t arrays; /* (total,C) */
    } cases[] = {{1, NORM_POST, 1},
                 {1, NORM_PRE, 2}, /* stream; and its LayerNorm */
                 {0, NORM_POST, 3},
                 {6, NORM_POST, 3},  /* keys and values before projection, or all */
                 {7, NORM_POST, 1}}; /* means */
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ModelConfig config = config_way(cases[i].way, cases[i].norm);
        double reals = bytes_per_token(&config) / sizeof(real);
        double statistics = 4 + (cases[i].norm == NORM_PRE ? 2 : 0);
        CHECK_MSG(reals <= (double)(cases[i].arrays * C) + statistics + 0.1, "case %zu: %g", i,
                  reals);
    }
}

const Test tests_encoder_chunks[] = {
    {"equal_the_whole_batch", test_equal_the_whole_batch, 0},
    {"stored_attention", test_stored_attention, 0},
    {"memory_grows_with_the_stream", test_memory_grows_with_the_stream, 0},
    {0},
};
