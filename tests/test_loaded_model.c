#include "loaded_model.h"

#include <stdio.h>

#include "harness.h"
#include "lab_fixture.h"
#include "log.h"
#include "mixed_gemm.h"

/* Every checksum is right and tensors are as the header says, but ids of the tokenizer would lie
 * beyond the embedding, or rows of it beyond the tokenizer. */
static void test_other_vocabulary(void) {
    LoadedModel model;
    lab_fixture_model(&model);
    size_t pieces = tokenizer_vocab_size(model.tokenizer);
    CHECK_INT(model.checkpoint.config.model.vocab, pieces);
    loaded_model_close(&model);
    const size_t others[] = {pieces - 1, pieces + 1, 6};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        Err err = {0};
        char wanted[80];
        lab_fixture_save(others[i]);
        snprintf(wanted, sizeof wanted, "header says %zu pieces, its tokenizer has %zu", others[i],
                 pieces);
        if (!CHECK(!loaded_model_open(&model, test_temp_path("model.ckpt"), &err))) test_end();
        CHECK_INT(err.code, ERR_FAILED);
        CHECK_STR_CONTAINS(err.msg, wanted);
        CHECK_STR_CONTAINS(err.msg, "model.ckpt");
    }
}

/* What was trained in a precision that is missing here is computed in fp32. */
static void test_precision(void) {
    LoadedModel first, again;
    log_quiet(true);
    lab_fixture_model(&first);
    Config config = first.checkpoint.config;
    for (Precision p = PRECISION_FP32; p <= PRECISION_FP16; p++) {
        Err ignored = {0};
        config.model.precision = p;
        lab_fixture_write("mixed.ckpt", &config, first.tokenizer, NULL);
        lab_fixture_open(&again, "mixed.ckpt");
        CHECK_INT(again.checkpoint.config.model.precision,
                  mixed_check(p, &ignored) ? p : PRECISION_FP32);
        loaded_model_close(&again);
    }
    loaded_model_close(&first);
}

/* A command that needs the other head says what the file is. */
static void test_heads(void) {
    char *names[] = {"no", "yes", "so"};
    LoadedModel model = {.checkpoint = {.path = "a.ckpt", .kind = "weights"}};
    Err err = {0};
    CHECK(loaded_model_check_mlm(&model, &err));
    CHECK(!loaded_model_check_classifier(&model, &err));
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_STR_CONTAINS(err.msg, "a.ckpt: kind \"weights\" has no classes");
    model.checkpoint.labels = (LabelSet){names, 3};
    model.checkpoint.config.model.classes = 3;
    CHECK(loaded_model_check_classifier(&model, &err));
    CHECK(!loaded_model_check_mlm(&model, &err));
    CHECK_STR_CONTAINS(err.msg, "a.ckpt: a classifier of 3 classes (no, yes, ...)");
}

const Test tests_loaded_model[] = {
    {"heads", test_heads, 0},
    {"other_vocabulary", test_other_vocabulary, TEST_FLOAT},
    {"precision", test_precision, 0},
    {0},
};
