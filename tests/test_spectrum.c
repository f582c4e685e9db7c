#include "spectrum.h"

#include <stdio.h>
#include <stdlib.h>

#include "batcher_fixture.h"
#include "encoder.h"
#include "harness.h"
#include "io.h"
#include "model_fixture.h"
#include "svd.h"
#include "tensors.h"
#include "threads.h"

enum { N = 24, HEADS = 3, WIDTH = 12, HEAD = WIDTH / HEADS };

/* The maps are float, and so are the activations they come from. */
static const double TOL = sizeof(real) == sizeof(float) ? 2e-5 : 1e-11;

typedef struct Fixture {
    Model model;
    LoadedModel loaded; /* of the model's parts */
    Shards shards;
    WholeSequences text;
} Fixture;

static ModelConfig config_of(AttentionKind attention, Scope scope) {
    ModelConfig config = model_config_tiny();
    config.n = N;
    config.k[0] = 7, config.k[1] = 4;
    config.attention = attention;
    config.scope = scope;
    config.vocab = SHARDS_VOCAB;
    config.dropout = config.attention_dropout = 0.4; /* of the training, not of this */
    config.recompute = RECOMPUTE_LAYER;
    return config;
}

static void fixture_create(Fixture *f, AttentionKind attention, Scope scope) {
    ModelConfig config = config_of(attention, scope);
    static char path[] = "some.ckpt";
    Err err = {0};
    *f = (Fixture){0};
    model_create(&f->model, &config, 1, N, ACTS_INFERENCE);
    f->loaded.checkpoint.config.model = config;
    f->loaded.checkpoint.table = f->model.table;
    f->loaded.checkpoint.path = path;
    f->loaded.params = f->model.params;
    shards_add_random(&f->shards, 60, 40, 3);
    REQUIRE(whole_sequences_open(&f->text, &f->shards.manifest.train, N, &err));
    REQUIRE(f->text.count > 8);
}

static void fixture_destroy(Fixture *f) {
    whole_sequences_close(&f->text);
    shards_free(&f->shards);
    model_destroy(&f->model);
}

static Spectrum measure(const Fixture *f, SpectrumOptions options) {
    Spectrum out;
    Err err = {0};
    if (!spectrum_measure(&out, &f->loaded, &f->text, &options, &err)) {
        test_fail(__FILE__, __LINE__, "%s", err.msg);
        test_end();
    }
    return out;
}

static double *singular(const double *a, size_t rows, size_t cols) {
    double *copy = tensors_take(rows * cols, sizeof *copy),
           *values = tensors_take(rows < cols ? rows : cols, sizeof *values),
           *scratch = tensors_take(svd_scratch(rows, cols), sizeof *scratch);
    memcpy(copy, a, rows * cols * sizeof *a);
    REQUIRE(svd_values(values, copy, rows, cols, scratch));
    return values;
}

/* P or Pbar (N,keys) of a head after a forward pass, from the definition in double. */
static double *probabilities(const LayerActs *acts, size_t keys, size_t h) {
    double *p = tensors_take(N * keys, sizeof *p);
    for (size_t t = 0; t < N; t++) {
        double sum = 0;
        for (size_t j = 0; j < keys; j++) {
            double dot = 0;
            for (size_t d = h * HEAD; d < (h + 1) * HEAD; d++)
                dot += (double)acts->q[t * WIDTH + d] * (double)acts->kp[j * WIDTH + d];
            sum += p[t * keys + j] = exp(dot / sqrt((double)HEAD));
        }
        for (size_t j = 0; j < keys; j++) p[t * keys + j] /= sum;
    }
    return p;
}

/* Pbar F, the whole (N,N) matrix. */
static double *effective(const double *p, const real *f, size_t keys) {
    double *product = tensors_take(N * N, sizeof *product);
    for (size_t t = 0; t < N; t++)
        for (size_t j = 0; j < keys; j++)
            for (size_t s = 0; s < N; s++)
                product[t * N + s] += p[t * keys + j] * (double)f[j * N + s];
    return product;
}

/* Values and shares of every head over the sequences, by the definitions. */
static void check_map(const Fixture *f, const Spectrum *s, const SpectrumCurves *curves) {
    const ModelConfig *config = &f->loaded.checkpoint.config.model;
    ModelConfig plain = *config;
    plain.dropout = plain.attention_dropout = 0;
    plain.recompute = RECOMPUTE_NONE;
    Activations acts;
    uint32_t ids[N];
    size_t start[2] = {0, N};
    uint64_t seq_key = 0;
    Batch batch = {.B = 1, .total = N, .start = start, .ids = ids, .seq_key = &seq_key};
    size_t count = s->layers * s->heads * curves->length;
    double *value = calloc(count, sizeof *value), *share = calloc(count, sizeof *share),
           *square = calloc(count, sizeof *square);
    REQUIRE(activations_create(&acts, &plain, 1, N, ACTS_TRAINING, NULL));
    for (size_t q = 0; q < s->sequences; q++) {
        whole_sequences_read(ids, &f->text, q, s->sequences);
        encoder_forward(&acts, &f->loaded.params, &plain, &batch);
        for (size_t unit = 0; unit < s->layers * HEADS; unit++) {
            size_t l = unit / HEADS, h = unit % HEADS, k = config->k[l];
            size_t keys = config->attention == ATTENTION_FULL ? N : k;
            double *p = probabilities(&acts.layers[l], keys, h), all = 0, sum = 0;
            const real *matrix = f->loaded.params.layers[l].seq_proj_v;
            if (config->scope == SCOPE_HEAD) matrix += h * k * N;
            double *values = curves->map == SPECTRUM_EFFECTIVE
                                 ? singular(effective(p, matrix, keys), N, N)
                                 : singular(p, N, keys);
            double power = s->definition == SHARE_SUM ? 1 : 2;
            CHECK_INT(curves->values[l], keys);
            for (size_t i = 0; i < keys; i++) all += pow(values[i], power);
            for (size_t i = 0; i < curves->length; i++) {
                size_t at = unit * curves->length + i;
                if (i < keys) sum += pow(values[i], power);
                if (i < keys) value[at] += values[i] / (double)s->sequences;
                share[at] += sum / all / (double)s->sequences;
                square[at] += sum / all * sum / all;
            }
        }
        tensors_free();
    }
    CHECK_ARRAY_CLOSE(curves->value, value, count, TOL);
    CHECK_ARRAY_CLOSE(curves->share, share, count, TOL);
    for (size_t i = 0; i < count; i++) {
        double n = (double)s->sequences;
        double variance = n > 1 ? (square[i] - n * share[i] * share[i]) / (n - 1) : 0;
        /* shares vary by some hundredths from sequence to sequence */
        CHECK_CLOSE(curves->deviation[i] * curves->deviation[i], variance > 0 ? variance : 0,
                    TOL / 20);
    }
    activations_destroy(&acts);
    free(value);
    free(share);
    free(square);
}

static void test_full_attention(void) {
    Fixture f;
    fixture_create(&f, ATTENTION_FULL, SCOPE_LAYER);
    for (SpectrumShare definition = SHARE_SUM; definition <= SHARE_SQUARES; definition++) {
        Spectrum s = measure(&f, (SpectrumOptions){.sequences = 5, .definition = definition});
        CHECK_INT(s.sequences, 5);
        CHECK_INT(s.maps, 1);
        CHECK_INT(s.curves[0].map, SPECTRUM_ATTENTION);
        CHECK_INT(s.curves[0].length, N);
        check_map(&f, &s, &s.curves[0]);
        spectrum_free(&s);
    }
    fixture_destroy(&f);
}

static void test_linformer(void) {
    for (Scope scope = SCOPE_HEAD; scope <= SCOPE_MODEL; scope++) {
        Fixture f;
        fixture_create(&f, ATTENTION_LINFORMER, scope);
        Spectrum s = measure(&f, (SpectrumOptions){.sequences = 3});
        CHECK_INT(s.maps, 2);
        CHECK_INT(s.curves[0].map, SPECTRUM_EFFECTIVE);
        CHECK_INT(s.curves[1].map, SPECTRUM_PROJECTED);
        CHECK_INT(s.curves[0].length, 7);
        for (size_t m = 0; m < s.maps; m++) check_map(&f, &s, &s.curves[m]);
        spectrum_free(&s);
        fixture_destroy(&f);
    }
}

/* Shares rise to 1 and stay there. */
static void test_shares_rise_to_one(void) {
    Fixture f;
    fixture_create(&f, ATTENTION_LINFORMER, SCOPE_LAYER);
    Spectrum s = measure(&f, (SpectrumOptions){0});
    CHECK_INT(s.sequences, f.text.count);
    for (size_t m = 0; m < s.maps; m++) {
        const SpectrumCurves *curves = &s.curves[m];
        for (size_t unit = 0; unit < s.layers * s.heads; unit++) {
            const double *share = curves->share + unit * curves->length;
            CHECK(share[0] > 0);
            for (size_t i = 1; i < curves->length; i++) CHECK(share[i] >= share[i - 1] - 1e-12);
            for (size_t i = curves->values[unit / s.heads] - 1; i < curves->length; i++)
                CHECK_CLOSE(share[i], 1, 1e-12);
        }
    }
    spectrum_free(&s);
    fixture_destroy(&f);
}

static void test_add_shares(void) {
    static const double values[] = {6, 3, 1, 0}, sum[] = {0.6, 0.9, 1, 1},
                        squares[] = {36. / 46, 45. / 46, 1, 1};
    double share[4] = {0}, square[4] = {0};
    spectrum_add_shares(share, square, values, 4, SHARE_SUM);
    for (size_t i = 0; i < 4; i++) CHECK_CLOSE(share[i], sum[i], 1e-15);
    for (size_t i = 0; i < 4; i++) CHECK_CLOSE(square[i], sum[i] * sum[i], 1e-15);
    spectrum_add_shares(share, square, values, 4, SHARE_SQUARES);
    for (size_t i = 0; i < 4; i++) CHECK_CLOSE(share[i], sum[i] + squares[i], 1e-15);
}

static void test_threads_agree(void) {
    Fixture f;
    fixture_create(&f, ATTENTION_LINFORMER, SCOPE_HEAD);
    Spectrum one = measure(&f, (SpectrumOptions){.sequences = 4});
    threads_set(3);
    Spectrum three = measure(&f, (SpectrumOptions){.sequences = 4});
    for (size_t m = 0; m < one.maps; m++)
        CHECK_ARRAY_CLOSE(three.curves[m].share, one.curves[m].share,
                          one.layers * one.heads * one.curves[m].length, TOL);
    spectrum_free(&one);
    spectrum_free(&three);
    fixture_destroy(&f);
}

static void test_not_finite(void) {
    Fixture f;
    Spectrum s;
    Err err = {0};
    fixture_create(&f, ATTENTION_FULL, SCOPE_LAYER);
    model_weight(&f.model, "layer1.k_b")[2] = (real)NAN;
    const SpectrumOptions options = {.sequences = 2};
    CHECK(!spectrum_measure(&s, &f.loaded, &f.text, &options, &err));
    CHECK_INT(err.code, ERR_NONFINITE);
    CHECK_STR_CONTAINS(err.msg, "some.ckpt: the attention is not finite");
    CHECK_STR_CONTAINS(err.msg, "layer1.k_b");
    fixture_destroy(&f);
}

/* Value `index` of a .npy file. */
static float npy_value(const char *name, size_t index, size_t size) {
    Bytes bytes;
    float value;
    char path[512];
    snprintf(path, sizeof path, "%s/%s", test_temp_dir(), name);
    REQUIRE(io_read_file(&bytes, path, 1 << 20, NULL));
    CHECK_INT(bytes.size, 128 + 4 * size);
    uint32_t bits = io_get_u32(bytes.data + 128 + 4 * index);
    memcpy(&value, &bits, sizeof value);
    io_bytes_free(&bytes);
    return value;
}

static void test_dump(void) {
    Fixture f;
    fixture_create(&f, ATTENTION_LINFORMER, SCOPE_LAYER);
    Spectrum s = measure(&f, (SpectrumOptions){.sequences = 1, .dump = test_temp_dir()});
    for (size_t i = 0; i < 4; i++) { /* of one sequence the mean is the value */
        size_t at = (1 * HEADS + 2) * 7 + i;
        CHECK_CLOSE(npy_value("layer1.head2.pf_values.npy", i, 4), s.curves[0].value[at], 1e-6);
        CHECK_CLOSE(npy_value("layer1.head2.p_values.npy", i, 4), s.curves[1].value[at], 1e-6);
    }
    double row = 0;
    for (size_t j = 0; j < 7; j++) row += (double)npy_value("layer0.head0.p.npy", 7 + j, N * 7);
    CHECK_CLOSE(row, 1, 1e-6);
    const real *projection = model_weight(&f.model, "layer1.seq_proj_v");
    CHECK(npy_value("layer1.head0.f.npy", 3 * N + 5, 4 * N) == (float)projection[3 * N + 5]);
    CHECK(!io_is_file(test_temp_path("layer1.head1.f.npy")));
    spectrum_free(&s);
    fixture_destroy(&f);
}

const Test tests_spectrum[] = {
    {"full_attention", test_full_attention, 0},
    {"linformer", test_linformer, 0},
    {"shares_rise_to_one", test_shares_rise_to_one, 0},
    {"add_shares", test_add_shares, TEST_FLOAT},
    {"threads_agree", test_threads_agree, 0},
    {"not_finite", test_not_finite, 0},
    {"dump", test_dump, TEST_FLOAT},
    {0},
};
