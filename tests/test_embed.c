#include "embed.h"

#include <stdlib.h>

#include "class_fixture.h"
#include "encoder.h"
#include "harness.h"
#include "io.h"
#include "lab_fixture.h"
#include "npy.h"

enum { ROWS = 40, WIDTH = 12 };

static const char *const LABELS[] = {"no", "yes", NULL};

static float *embed(const LoadedModel *model, const TaskFile *rows, Pooling pooling, size_t batch) {
    Embedder embedder;
    Err err = {0};
    float *vectors = malloc((rows->count * WIDTH + 1) * sizeof *vectors);
    REQUIRE(vectors);
    CHECK_MSG(embedder_create(&embedder, model, pooling, batch, &err) &&
                  embedder_run(vectors, &embedder, rows, &err),
              "%s", err.msg);
    if (err.code) test_end();
    CHECK_INT(embedder.rows, rows->count);
    embedder_destroy(&embedder);
    return vectors;
}

/* The tokens of one text or two by hand, as RoBERTa puts them, through the encoder; cls (C) and
 * mean (C) of its result. */
static void embed_by_hand(double *cls, double *mean, const LoadedModel *model, const TaskRow *row) {
    const ModelConfig *config = &model->checkpoint.config.model;
    uint32_t ids[64] = {TOKEN_BOS}, *found = NULL;
    size_t total = 1, count, capacity = 0, own = 0;
    Activations acts;
    for (size_t t = 0; t < 2 && row->text[t]; t++) {
        REQUIRE(tokenizer_encode(model->tokenizer, &found, &count, &capacity, row->text[t],
                                 row->size[t], NULL));
        if (t == 1) ids[total++] = TOKEN_EOS;
        REQUIRE(total + count < 60);
        if (count) memcpy(ids + total, found, count * sizeof *ids);
        total += count;
        ids[total++] = TOKEN_EOS;
    }
    free(found);
    REQUIRE(total <= config->n);
    REQUIRE(activations_create(&acts, config, 1, config->n, ACTS_INFERENCE, NULL));
    size_t start[2] = {0, total};
    uint64_t seq_key = 0;
    Batch batch = {.B = 1, .total = total, .start = start, .ids = ids, .seq_key = &seq_key};
    encoder_forward(&acts, &model->params, config, &batch);
    memset(mean, 0, WIDTH * sizeof *mean);
    for (size_t c = 0; c < WIDTH; c++) cls[c] = acts.hidden[c];
    for (size_t t = 0; t < total; t++) {
        if (ids[t] < TOKEN_SPECIALS) continue;
        own++;
        for (size_t c = 0; c < WIDTH; c++) mean[c] += acts.hidden[t * WIDTH + c];
    }
    for (size_t c = 0; c < WIDTH; c++) mean[c] /= (double)own;
    activations_destroy(&acts);
}

static void check_vectors(const LoadedModel *model, bool pairs) {
    TaskFile rows;
    class_fixture_rows(&rows, ROWS, 2, pairs, 3);
    for (size_t i = 0; i < ROWS; i++) { /* to fit n */
        rows.rows[i].size[0] = 2 + rows.rows[i].size[0] % 8;
        rows.rows[i].size[1] = pairs ? 1 + i % 5 : 0;
    }
    static const size_t batches[] = {0, 1, 1000};
    for (size_t b = 0; b < 3; b++) {
        float *cls = embed(model, &rows, POOLING_CLS, batches[b]),
              *mean = embed(model, &rows, POOLING_MEAN, batches[b]);
        for (size_t i = 0; i < ROWS; i++) {
            double cls_wanted[WIDTH], mean_wanted[WIDTH];
            embed_by_hand(cls_wanted, mean_wanted, model, &rows.rows[i]);
            for (size_t c = 0; c < WIDTH; c++) { /* values near 1 after a LayerNorm, in float */
                CHECK_CLOSE(cls[i * WIDTH + c], cls_wanted[c], 5e-6);
                CHECK_CLOSE(mean[i * WIDTH + c], mean_wanted[c], 5e-6);
            }
        }
        CHECK(fabs((double)cls[0] - (double)mean[0]) > 1e-3);
        CHECK(fabs((double)cls[0] - (double)cls[WIDTH]) > 1e-3);
        free(cls);
        free(mean);
    }
    class_fixture_rows_free(&rows);
}

static void test_pretrained(void) {
    LoadedModel model;
    lab_fixture_model(&model);
    FinetuneConfig task = embed_task(&model);
    CHECK_STR(task.text, "text");
    CHECK(!task_is_pair(&task));
    check_vectors(&model, false);
    loaded_model_close(&model);
}

static void test_classifier(void) {
    LoadedModel model;
    class_fixture_model(&model, "task: sst2", LABELS);
    check_vectors(&model, false);
    model.checkpoint.config.finetune.task = TASK_QQP;
    check_vectors(&model, true);
    loaded_model_close(&model);
}

/* A text without tokens keeps its place: zeros are the mean of none. */
static void test_empty_text(void) {
    LoadedModel model;
    Embedder embedder;
    Err err = {0};
    float vectors[3 * WIDTH], alone[WIDTH];
    TaskRow items[3] = {{.text = {"  "}, .size = {2}, .label = -1, .place = "t", .line = 4},
                        {.text = {"karo"}, .size = {4}, .label = -1, .place = "t", .line = 5},
                        {.text = {""}, .size = {0}, .label = -1, .place = "t", .line = 6}};
    const TaskFile rows = {.rows = items, .count = 3}, one = {.rows = items + 1, .count = 1};
    lab_fixture_model(&model);
    REQUIRE(embedder_create(&embedder, &model, POOLING_MEAN, 0, NULL));
    CHECK_MSG(embedder_run(vectors, &embedder, &rows, &err), "%s", err.msg);
    CHECK_INT(embedder.without_tokens, 2);
    CHECK_INT(embedder.first_without, 4);
    CHECK(embedder_run(alone, &embedder, &one, &err));
    CHECK_INT(embedder.without_tokens, 2);
    double size = 0;
    for (size_t c = 0; c < WIDTH; c++) {
        CHECK(vectors[c] == 0 && vectors[2 * WIDTH + c] == 0);
        CHECK_CLOSE(vectors[WIDTH + c], alone[c], 1e-5);
        size += fabs((double)alone[c]);
    }
    CHECK(size > 0.1);
    embedder_destroy(&embedder);
    loaded_model_close(&model);
}

static void test_refused_rows(void) {
    LoadedModel model;
    Embedder embedder;
    Err err = {0};
    float vectors[WIDTH];
    TaskRow item = {.text = {"karo"}, .size = {4}, .label = -1, .place = "t", .line = 1};
    const TaskFile rows = {.rows = &item, .count = 1};
    lab_fixture_model(&model);
    model.params.emb_ln_b[3] = (real)NAN;
    REQUIRE(embedder_create(&embedder, &model, POOLING_CLS, 0, NULL));
    CHECK(!embedder_run(vectors, &embedder, &rows, &err));
    CHECK_STR_CONTAINS(err.msg, "not finite");
    CHECK_INT(err.code, ERR_NONFINITE);
    embedder_destroy(&embedder);
    loaded_model_close(&model);
}

/* The bytes of a file of 3 rows of 2, as the format's description has them. */
static void test_npy_bytes(void) {
    static const char header[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': "
                                 "False, 'shape': (3, 2), }";
    static const unsigned char data[] = {0, 0, 0x80, 0x3F, 0, 0, 0x20, 0xC1, 0, 0, 0, 0,
                                         0, 0, 0x80, 0x7F, 0, 0, 0,    0x3F, 1, 0, 0, 0};
    static const float values[] = {1, -10, 0, INFINITY, 0.5f, 1.40129846e-45f};
    NpyWriter writer;
    Bytes bytes;
    const char *path = test_temp_path("x.npy");
    REQUIRE(npy_open(&writer, path, 2, NULL));
    CHECK(npy_write(&writer, values, 1));
    CHECK(npy_write(&writer, values + 2, 2));
    CHECK(!io_is_file(path));
    REQUIRE(npy_commit(&writer, NULL));
    REQUIRE(io_read_file(&bytes, path, 1 << 20, NULL));
    CHECK_INT(bytes.size, 128 + sizeof data);
    CHECK(memcmp(bytes.data, header, sizeof header - 1) == 0);
    for (size_t i = sizeof header - 1; i < 127; i++) CHECK_INT(bytes.data[i], ' ');
    CHECK_INT(bytes.data[127], '\n');
    CHECK(memcmp(bytes.data + 128, data, sizeof data) == 0);
    io_bytes_free(&bytes);
    npy_abort(&writer);
}

/* More than the writer converts at a time. */
static void test_npy_many(void) {
    enum { COLUMNS = 7, COUNT = 1000 };
    static float values[COUNT * COLUMNS];
    NpyWriter writer;
    Bytes bytes;
    for (size_t i = 0; i < COUNT * COLUMNS; i++) values[i] = (float)i * 0.5f;
    const char *path = test_temp_path("x.npy");
    REQUIRE(npy_open(&writer, path, COLUMNS, NULL));
    CHECK(npy_write(&writer, values, COUNT));
    REQUIRE(npy_commit(&writer, NULL));
    REQUIRE(io_read_file(&bytes, path, 1 << 20, NULL));
    CHECK_STR_CONTAINS((const char *)bytes.data + 10, "'shape': (1000, 7), }");
    CHECK_INT(bytes.size, 128 + sizeof values);
    for (size_t i = 0; i < COUNT * COLUMNS; i++) {
        uint32_t bits = io_get_u32(bytes.data + 128 + 4 * i);
        CHECK(memcmp(&bits, &values[i], 4) == 0);
    }
    io_bytes_free(&bytes);
}

static void test_npy_faults(void) {
    NpyWriter writer = {0};
    Err err = {0};
    const float value = 1;
    npy_abort(&writer);
    CHECK(!npy_open(&writer, test_temp_path("none/x.npy"), 1, &err));
    CHECK_STR_CONTAINS(err.msg, "none/x.npy");
    const char *path = test_temp_path("gone.npy");
    REQUIRE(npy_open(&writer, path, 1, NULL));
    CHECK(npy_write(&writer, &value, 1));
    npy_abort(&writer);
    CHECK(!io_is_file(path));
    REQUIRE(npy_open(&writer, path, 1, NULL));
    writer.file.error = 28; /* ENOSPC, as from a full disk */
    CHECK(!npy_write(&writer, &value, 1));
    CHECK(!npy_commit(&writer, &err));
    CHECK_STR_CONTAINS(err.msg, "gone.npy: cannot write");
    CHECK(!io_is_file(path));
}

const Test tests_embed[] = {
    {"pretrained", test_pretrained, 0},          {"classifier", test_classifier, 0},
    {"empty_text", test_empty_text, TEST_FLOAT}, {"refused_rows", test_refused_rows, TEST_FLOAT},
    {"npy_bytes", test_npy_bytes, TEST_FLOAT},   {"npy_many", test_npy_many, TEST_FLOAT},
    {"npy_faults", test_npy_faults, TEST_FLOAT}, {0},
};
