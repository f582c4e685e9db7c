/* Checkpoints of kind "classifier", and the start of a fine-tuning from other kinds. */
#include <stdio.h>
#include <stdlib.h>

#include "checkpoint_fixture.h"
#include "harness.h"
#include "io.h"

static void save(const CheckpointFixture *fixture, const char *name, const char *kind) {
    Err err = {0};
    CheckpointContent content = checkpoint_fixture_content(fixture, kind);
    if (!CHECK_MSG(checkpoint_save(test_temp_path(name), &content, &err), "%s", err.msg))
        test_end();
}

static real *filled_block(const ParamTable *table, double value) {
    real *x = calloc(table->block_reals, sizeof *x);
    REQUIRE(x);
    for (size_t i = 0; i < table->block_reals; i++) x[i] = (real)value;
    return x;
}

static void check_content(const char *path) {
    Err err = {0};
    CheckpointFixture f;
    Checkpoint c;
    checkpoint_fixture_create_classifier(&f);
    if (!CHECK_MSG(checkpoint_open(&c, path, &err), "%s", err.msg)) test_end();
    CHECK_STR(c.kind, "classifier");
    CHECK_INT(c.config.model.classes, 3);
    CHECK_INT(c.config.finetune.task, TASK_SST2);
    CHECK_INT(c.moments, 0);
    CHECK_INT(c.state.step, 42);
    REQUIRE(c.labels.count == 3);
    for (size_t i = 0; i < 3; i++) CHECK_STR(c.labels.names[i], f.labels.names[i]);
    CHECK(param_table_find(&c.table, "class_out_w") && !param_table_find(&c.table, "head_w"));
    CHECK_INT(c.entry_count, f.table.count + 1);
    real *w = filled_block(&c.table, 0);
    CHECK_MSG(checkpoint_read(&c, &c.table, w, NULL, NULL, &err), "%s", err.msg);
    for (size_t t = 0; t < f.table.count; t++) {
        const Tensor *tensor = &f.table.items[t];
        CHECK(
            !memcmp(w + tensor->offset, f.weights + tensor->offset, tensor->count * sizeof(real)));
    }
    free(w);
    checkpoint_close(&c);
    checkpoint_fixture_destroy(&f);
}

/* A file written by the first version that had classifiers loads for ever. */
static void test_golden_v1(void) {
    check_content("tests/golden/checkpoint-classifier-v1.ckpt");
}

static void test_round_trip(void) {
    CheckpointFixture f;
    checkpoint_fixture_create_classifier(&f);
    save(&f, "a.ckpt", "classifier");
    check_content(test_temp_path("a.ckpt"));
    checkpoint_fixture_destroy(&f);
}

/* A thousand classes, the most there are. */
static void test_many_labels(void) {
    Err err = {0};
    CheckpointFixture f;
    Checkpoint c;
    char *names[TASK_MAX_CLASSES + 1];
    checkpoint_fixture_create_classifier(&f);
    for (size_t i = 0; i <= TASK_MAX_CLASSES; i++) {
        names[i] = malloc(16);
        REQUIRE(names[i]);
        snprintf(names[i], 16, "class %zu", i);
    }
    const LabelSet labels = {names, TASK_MAX_CLASSES};
    f.config.model.classes = TASK_MAX_CLASSES;
    param_table_destroy(&f.table);
    REQUIRE(param_table_create(&f.table, &f.config.model, &err));
    real *weights = filled_block(&f.table, 1);
    CheckpointContent content = checkpoint_fixture_content(&f, "classifier");
    content.weights = weights;
    content.labels = &labels;
    REQUIRE(checkpoint_save(test_temp_path("a.ckpt"), &content, &err));
    if (CHECK_MSG(checkpoint_open(&c, test_temp_path("a.ckpt"), &err), "%s", err.msg)) {
        CHECK_INT(c.labels.count, TASK_MAX_CLASSES);
        CHECK_STR(c.labels.names[999], "class 999");
        checkpoint_close(&c);
    }
    free(weights);
    for (size_t i = 0; i <= TASK_MAX_CLASSES; i++) free(names[i]);
    checkpoint_fixture_destroy(&f);
}

/* A file that could not be opened again is not written. */
static void test_bad_labels_are_not_saved(void) {
    Err err = {0};
    CheckpointFixture f;
    checkpoint_fixture_create_classifier(&f);
    CheckpointContent content = checkpoint_fixture_content(&f, "classifier");
    strcpy(f.labels.names[1], "no");
    CHECK(!checkpoint_save(test_temp_path("a.ckpt"), &content, &err));
    CHECK_STR_CONTAINS(err.msg, "a.ckpt: labels 0 and 1 are both \"no\"");
    CHECK(!io_is_file(test_temp_path("a.ckpt")));
    checkpoint_fixture_destroy(&f);
}

static void test_flipped_byte_is_noticed(void) {
    checkpoint_check_flips("classifier", 1);
}

static void test_truncated_at_every_length(void) {
    checkpoint_check_cuts("classifier");
}

#define LABELS "\"labels\":[\"no\",\"\\\"yes\\\"\\n\\\\\",\"\xE5\x8F\xAF\"]"

/* Headers that lie, with checksums that hold. */
static void test_bad_headers(void) {
    static const CheckpointForgery forgeries[] = {
        {"labels-missing", LABELS ",", "", "no member \"labels\""},
        {"labels-twice", LABELS, LABELS "," LABELS, "unknown or there twice"},
        {"labels-text", LABELS, "\"labels\":\"no\"", "\"labels\" is not a list"},
        {"labels-object", LABELS, "\"labels\":{\"no\":0,\"yes\":1}", "\"labels\" is not a list"},
        {"labels-none", LABELS, "\"labels\":[]", "0 labels, wanted 2..1000"},
        {"labels-one", LABELS, "\"labels\":[\"no\"]", "1 labels, wanted 2..1000"},
        {"labels-fewer", LABELS, "\"labels\":[\"no\",\"yes\"]",
         "class_out_w has shape 3 x 4, the model of its config wants 2 x 4"},
        {"labels-more", LABELS, "\"labels\":[\"no\",\"yes\",\"so\",\"la\"]",
         "class_out_w has shape 3 x 4, the model of its config wants 4 x 4"},
        {"labels-number", LABELS, "\"labels\":[\"no\",1,\"so\"]", "label 1 is not a text"},
        {"labels-null", LABELS, "\"labels\":[\"no\",\"yes\",null]", "label 2 is not a text"},
        {"labels-nested", LABELS, "\"labels\":[[\"no\"],\"yes\",\"so\"]", "label 0 is not a text"},
        {"labels-equal", LABELS, "\"labels\":[\"no\",\"yes\",\"\\u006e\\u006f\"]",
         "labels 0 and 2 are both \"no\""},
        {"labels-empty", LABELS, "\"labels\":[\"no\",\"\",\"yes\"]", "label 1 is empty"},
        {"labels-nul", LABELS, "\"labels\":[\"no\",\"\\u0000\",\"yes\"]", "label 1 is empty"},
        {"labels-not-utf8", LABELS, "\"labels\":[\"no\",\"\xE5\x8F\",\"yes\"]",
         "label 1 is not UTF-8"},
        {"kind-loses-head", "\"kind\":\"classifier\"", "\"kind\":\"weights\"",
         "unknown or there twice"},
        {"head-renamed", "\"name\":\"class_dense_w\"", "\"name\":\"head_w\"",
         "\"head_w\" where the model of its config has \"class_dense_w\""},
        {"head-transposed", "\"shape\":[3,4]", "\"shape\":[4,3]", "class_out_w has shape 4 x 3"},
    };
    checkpoint_check_forgeries("classifier", forgeries, sizeof forgeries / sizeof forgeries[0]);

    static const CheckpointForgery weights[] = {
        {"kind-claims-labels", "\"kind\":\"weights\"", "\"kind\":\"classifier\"",
         "no member \"labels\""},
        {"weights-with-labels", "\"vocab\":6,", "\"vocab\":6,\"labels\":[\"no\",\"yes\"],",
         "unknown or there twice"},
        {"kind-claims-head", "\"kind\":\"weights\",",
         "\"kind\":\"classifier\",\"labels\":[\"no\",\"yes\"],",
         "tensors, the model of its config has"},
    };
    checkpoint_check_forgeries("weights", weights, sizeof weights / sizeof weights[0]);
}

/* A config that takes its sizes from elsewhere is read without the rules between them; a file's
 * sizes must keep them. */
static void test_bad_sizes(void) {
    static const CheckpointForgery forgeries[] = {
        {"finetune-k-6", "\\n  k: 3\\n", "\\n  k: 6\\n",
         "model.k = 6 of layer 0, wanted at most model.n = 5"},
        {"finetune-heads-3", "heads: 2", "heads: 3",
         "model.heads = 3 does not divide model.width = 4"},
    };
    Err err;
    Bytes file = checkpoint_fixture_file("classifier");
    Bytes taken = checkpoint_forge(&file, "init: \\\"none\\\"", "init: x.ckpt");
    CHECK_MSG(checkpoint_accepts(taken.data, taken.size, &err), "%s", err.msg);
    for (size_t i = 0; i < 2; i++) {
        Bytes forged = checkpoint_forge(&taken, forgeries[i].find, forgeries[i].replace);
        checkpoint_check_refused(forgeries[i].name, forged.data, forged.size, forgeries[i].message);
        io_bytes_free(&forged);
    }
    io_bytes_free(&taken);
    io_bytes_free(&file);
}

/* More labels than there may be, in a header of its own size. */
static void test_too_many_labels(void) {
    Bytes file = checkpoint_fixture_file("classifier");
    size_t size = 16 * 1001 + 32, used;
    char *list = malloc(size);
    REQUIRE(list);
    used = (size_t)snprintf(list, size, "\"labels\":[");
    for (int i = 0; i < 1001; i++)
        used += (size_t)snprintf(list + used, size - used, "%s\"%d\"", i ? "," : "", i);
    snprintf(list + used, size - used, "]");
    Bytes forged = checkpoint_forge(&file, LABELS, list);
    checkpoint_check_refused("labels-1001", forged.data, forged.size,
                             "1001 labels, wanted 2..1000");
    io_bytes_free(&forged);
    io_bytes_free(&file);
    free(list);
}

static void open_fixture(Checkpoint *c, const char *kind) {
    Err err = {0};
    CheckpointFixture f;
    if (!strcmp(kind, "classifier"))
        checkpoint_fixture_create_classifier(&f);
    else
        checkpoint_fixture_create(&f);
    save(&f, "from.ckpt", kind);
    REQUIRE(checkpoint_open(c, test_temp_path("from.ckpt"), &err));
    checkpoint_fixture_destroy(&f);
}

/* The encoder comes over from every kind; the head keeps what was in the block. */
static void test_encoder_is_copied(void) {
    static const char *const kinds[] = {"pretrain", "weights", "classifier"};
    for (size_t k = 0; k < 3; k++) {
        Err err = {0};
        Checkpoint c;
        ParamTable table;
        open_fixture(&c, kinds[k]);
        ModelConfig model = c.config.model;
        model.classes = 5;
        REQUIRE(param_table_create(&table, &model, &err));
        real *w = filled_block(&table, 77), *own = filled_block(&c.table, 0);
        REQUIRE(checkpoint_read(&c, &c.table, own, NULL, NULL, &err));
        CHECK_MSG(checkpoint_read_encoder(&c, &table, w, &err), "%s", err.msg);
        size_t heads = 0;
        for (size_t t = 0; t < table.count; t++) {
            const Tensor *to = &table.items[t], *from = param_table_find(&c.table, to->name);
            heads += to->head;
            for (size_t i = 0; i < to->count; i++) {
                real wanted = to->head ? 77 : own[from->offset + i];
                if (!CHECK_MSG(w[to->offset + i] == wanted, "%s from %s", to->name, kinds[k]))
                    break;
            }
        }
        CHECK_INT(heads, 4);
        free(w), free(own);
        param_table_destroy(&table);
        checkpoint_close(&c);
    }
}

/* The block is refused with a message that contains both texts, and stays as it was. */
static void check_other_encoder(const Checkpoint *c, const ModelConfig *model, const char *first,
                                const char *second) {
    Err err = {0};
    ParamTable table;
    REQUIRE(param_table_create(&table, model, &err));
    real *w = filled_block(&table, 77);
    CHECK(!checkpoint_read_encoder(c, &table, w, &err));
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_STR_CONTAINS(err.msg, "from.ckpt: ");
    CHECK_STR_CONTAINS(err.msg, first);
    CHECK_STR_CONTAINS(err.msg, second);
    for (size_t i = 0; i < table.block_reals; i++) CHECK(w[i] == 77);
    free(w);
    param_table_destroy(&table);
}

static void test_other_encoders_are_refused(void) {
    Checkpoint c;
    open_fixture(&c, "pretrain");
    ModelConfig model = c.config.model;
    model.classes = 2;
#define OTHER(change, first, second)                                                               \
    do {                                                                                           \
        ModelConfig other = model;                                                                 \
        other.change;                                                                              \
        check_other_encoder(&c, &other, first, second);                                            \
    } while (0)
    OTHER(n = 6, "tensor position is 6 x 4 in the model", "5 x 4 in the checkpoint");
    OTHER(k[0] = 4, "tensor layer0.seq_proj_k is 4 x 5 in the model", "3 x 5 in the checkpoint");
    OTHER(ffn = 7, "tensor layer0.ff1_w is 7 x 4 in the model", "6 x 4");
    OTHER(vocab = 7, "tensor token is 7 x 4 in the model", "6 x 4");
    OTHER(layers = 2, "the model has a tensor layer1.q_w", "the checkpoint has none");
    OTHER(norm = NORM_POST, "the checkpoint has a tensor final_ln_w", "the model has none");
    OTHER(tie_kv = true, "the checkpoint has a tensor layer0.seq_proj_v", "the model has none");
    OTHER(scope = SCOPE_MODEL, "the model has a tensor seq_proj_k", "the checkpoint has none");
    OTHER(attention = ATTENTION_FULL, "the checkpoint has a tensor layer0.seq_proj_k", "none");
#undef OTHER
    checkpoint_close(&c);
}

/* Every byte of the data is verified, also of moments, heads and gaps that are not copied. */
static void test_read_encoder_verifies_the_file(void) {
    Err err;
    Bytes file = checkpoint_fixture_file("pretrain");
    Checkpoint c;
    ParamTable table;
    REQUIRE(checkpoint_open_bytes(&c, file.data, file.size, "test.ckpt", &err));
    ModelConfig model = c.config.model;
    model.classes = 2;
    REQUIRE(param_table_create(&table, &model, &err));
    real *w = filled_block(&table, 0);
    for (size_t i = checkpoint_data_start(&file); i < file.size; i++) {
        file.data[i] ^= 0x40;
        CHECK_MSG(!checkpoint_read_encoder(&c, &table, w, &err), "byte %zu: flip not noticed", i);
        file.data[i] ^= 0x40;
    }
    CHECK(checkpoint_read_encoder(&c, &table, w, &err));
    free(w);
    param_table_destroy(&table);
    checkpoint_close(&c);
    io_bytes_free(&file);
}

/* What pretraining does with a classifier in its folder: it cannot go on from it. */
static void test_training_cannot_go_on(void) {
    Err err = {0};
    Checkpoint c;
    open_fixture(&c, "classifier");
    real *w = filled_block(&c.table, 0), *m = filled_block(&c.table, 0);
    CHECK(!checkpoint_read(&c, &c.table, w, m, NULL, &err));
    CHECK_STR_CONTAINS(err.msg, "kind \"classifier\" with 0 moment blocks");
    free(w), free(m);
    checkpoint_close(&c);
}

const Test tests_checkpoint_classifier[] = {
    {"round_trip", test_round_trip, 0},
    {"golden_v1", test_golden_v1, TEST_FLOAT},
    {"many_labels", test_many_labels, 0},
    {"bad_labels_are_not_saved", test_bad_labels_are_not_saved, 0},
    {"flipped_byte_is_noticed", test_flipped_byte_is_noticed, 0},
    {"truncated_at_every_length", test_truncated_at_every_length, 0},
    {"bad_headers", test_bad_headers, 0},
    {"bad_sizes", test_bad_sizes, 0},
    {"too_many_labels", test_too_many_labels, 0},
    {"encoder_is_copied", test_encoder_is_copied, 0},
    {"other_encoders_are_refused", test_other_encoders_are_refused, 0},
    {"read_encoder_verifies_the_file", test_read_encoder_verifies_the_file, 0},
    {"training_cannot_go_on", test_training_cannot_go_on, 0},
    {0},
};
