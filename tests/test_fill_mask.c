#include "fill_mask.h"

#include <stdlib.h>
#include <string.h>

#include "data_fixture.h"
#include "encoder.h"
#include "harness.h"
#include "lab_fixture.h"
#include "mlm_head.h"

enum { IDS = 64 };

/* Ids of plain text without specials, into ids (IDS). */
static size_t encode(uint32_t *ids, const Tokenizer *tokenizer, const char *text) {
    uint32_t *buffer = NULL;
    size_t count = 0, capacity = 0;
    Err err = {0};
    REQUIRE(tokenizer_encode(tokenizer, &buffer, &count, &capacity, text, strlen(text), &err));
    REQUIRE(count <= IDS);
    if (count) memcpy(ids, buffer, count * sizeof *ids);
    free(buffer);
    return count;
}

/* `text` gives <s> before <mask> rest </s>, where `inside` encodes to the pieces of `before` and
 * then those of rest. */
static void check_encoding(const LoadedModel *model, const char *text, const char *before,
                           const char *inside) {
    MaskedText masked;
    Err err = {0};
    uint32_t wanted[IDS], whole[IDS];
    size_t prefix = encode(wanted + 1, model->tokenizer, before),
           all = encode(whole, model->tokenizer, inside);
    REQUIRE(all >= prefix);
    CHECK_MSG(memcmp(wanted + 1, whole, prefix * sizeof *whole) == 0,
              "'%s' does not begin like '%s'", inside, before);
    wanted[0] = TOKEN_BOS;
    wanted[1 + prefix] = TOKEN_MASK;
    memcpy(wanted + 2 + prefix, whole + prefix, (all - prefix) * sizeof *whole);
    wanted[2 + all] = TOKEN_EOS;
    if (!CHECK_MSG(masked_text_encode(&masked, model->tokenizer, text, strlen(text), &err), "%s",
                   err.msg))
        return;
    bool same =
        masked.count == all + 3 && memcmp(masked.ids, wanted, masked.count * sizeof *wanted) == 0;
    CHECK_MSG(same, "'%s': not the pieces of '%s' with a mask behind '%s'", text, inside, before);
    CHECK_INT(masked.mask_count, 1);
    CHECK_INT(masked.masks[0], 1 + prefix);
    masked_text_free(&masked);
}

/* The mask takes the place of a word and the space before it; no stray space piece appears on
 * either side. */
static void test_mask_inside_text(void) {
    LoadedModel model;
    lab_fixture_model(&model);
    check_encoding(&model, "karo <mask> mites", "karo", "karo mites");
    check_encoding(&model, "karo<mask> mites", "karo", "karo mites");
    check_encoding(&model, "karo \t<mask> mites lun", "karo", "karo mites lun");
    check_encoding(&model, "karo <mask>", "karo", "karo");
    check_encoding(&model, "karo <mask>  ", "karo", "karo");
    check_encoding(&model, "<mask> mites", "", " mites");
    check_encoding(&model, "karo <mask>.", "karo", "karo.");
    loaded_model_close(&model);
}

/* A full stop behind a mask is the piece that ends a sentence, not one that begins a word. */
static void test_mask_before_full_stop(void) {
    LoadedModel model;
    lab_fixture_model(&model);
    uint32_t ended[IDS], alone[IDS];
    size_t count = encode(ended, model.tokenizer, "karo.");
    encode(alone, model.tokenizer, ".");
    CHECK(strcmp(tokenizer_piece(model.tokenizer, ended[count - 1]), ".") == 0);
    CHECK(alone[0] != ended[count - 1]); /* else this shows nothing */
    MaskedText masked;
    REQUIRE(masked_text_encode(&masked, model.tokenizer, "<mask>.", 7, NULL));
    CHECK_INT(masked.count, 4);
    CHECK_INT(masked.ids[1], TOKEN_MASK);
    CHECK_INT(masked.ids[2], ended[count - 1]);
    masked_text_free(&masked);
    loaded_model_close(&model);
}

static void test_several_masks(void) {
    LoadedModel model;
    lab_fixture_model(&model);
    static const char *const texts[] = {"<mask><mask>", "<mask> <mask>", " <mask>\t<mask>\n"};
    for (size_t i = 0; i < 3; i++) {
        MaskedText masked;
        REQUIRE(masked_text_encode(&masked, model.tokenizer, texts[i], strlen(texts[i]), NULL));
        CHECK_INT(masked.count, 4);
        CHECK_INT(masked.mask_count, 2);
        CHECK_INT(masked.masks[0], 1);
        CHECK_INT(masked.masks[1], 2);
        masked_text_free(&masked);
    }
    loaded_model_close(&model);
}

/* Names of other specials are text; so are halves of the mask's. */
static void test_specials_are_text(void) {
    LoadedModel model;
    lab_fixture_model(&model);
    static const char text[] = "<s> </s> <pad> <unk> <mask <MASK> mask>";
    MaskedText masked;
    REQUIRE(masked_text_encode(&masked, model.tokenizer, text, sizeof text - 1, NULL));
    CHECK_INT(masked.mask_count, 0);
    for (size_t i = 1; i + 1 < masked.count; i++) CHECK(masked.ids[i] >= TOKEN_SPECIALS);
    masked_text_free(&masked);
    loaded_model_close(&model);
}

/* exp(-loss) of the training loss with this label at the mask: another way to the same
 * probability. */
static double probability_by_loss(const LoadedModel *model, Activations *acts,
                                  const MaskedText *text, size_t mask, uint32_t label) {
    size_t start[2] = {0, text->count};
    uint32_t row = (uint32_t)text->masks[mask];
    uint64_t seq_key = 0;
    Batch batch = {.B = 1,
                   .total = text->count,
                   .start = start,
                   .ids = text->ids,
                   .seq_key = &seq_key,
                   .masked = 1,
                   .masked_rows = &row,
                   .labels = &label};
    const ModelConfig *config = &model->checkpoint.config.model;
    encoder_forward(acts, &model->params, config, &batch);
    return exp(-mlm_head_loss(acts, &model->params, config, &batch));
}

static void test_probabilities(void) {
    LoadedModel model;
    FillMask fill;
    MaskedText text;
    Activations acts;
    lab_fixture_model(&model);
    const ModelConfig *config = &model.checkpoint.config.model;
    static const char line[] = "karo <mask> mites <mask>.";
    size_t all = config->vocab - TOKEN_SPECIALS;
    Fill *fills = calloc(2 * all, sizeof *fills), few[2 * 3];
    REQUIRE(fills && fill_mask_create(&fill, &model, NULL));
    REQUIRE(activations_create(&acts, config, 1, config->n, ACTS_INFERENCE, NULL));
    REQUIRE(masked_text_encode(&text, model.tokenizer, line, sizeof line - 1, NULL));
    REQUIRE(fill_mask_predict(fills, &fill, &text, all, NULL));
    REQUIRE(fill_mask_predict(few, &fill, &text, 3, NULL));
    for (size_t m = 0; m < 2; m++) {
        double sum = 0;
        for (size_t i = 0; i < all; i++) {
            const Fill *f = &fills[m * all + i];
            CHECK(f->id >= TOKEN_SPECIALS && f->id < config->vocab);
            CHECK(i == 0 || f->probability <= f[-1].probability);
            sum += f->probability;
        }
        for (uint32_t special = 0; special < TOKEN_SPECIALS; special++)
            sum += probability_by_loss(&model, &acts, &text, m, special);
        CHECK_CLOSE(sum, 1, 1e-5); /* 420 float roundings */
        for (size_t i = 0; i < 3; i++) {
            CHECK_INT(few[m * 3 + i].id, fills[m * all + i].id);
            double p = probability_by_loss(&model, &acts, &text, m, few[m * 3 + i].id);
            CHECK_CLOSE(few[m * 3 + i].probability / p, 1, 1e-5);
        }
    }
    CHECK(fills[0].probability >
          1.5 * fills[all / 2].probability); /* the model does tell pieces apart */
    CHECK(fills[0].id != fills[all].id ||
          fills[0].probability != fills[all].probability); /* and places */
    masked_text_free(&text);
    activations_destroy(&acts);
    fill_mask_destroy(&fill);
    free(fills);
    loaded_model_close(&model);
}

/* A tokenizer whose text had words with the stopper joins pieces across it. */
static void test_stopper_in_vocabulary(void) {
    enum { SIZE = 30000 };
    static const char joined[] = "\xEE\x80\x80\xEE\x80\x81\n", text_behind[] = "<mask>\xEE\x80\x81";
    Config config;
    Tokenizer *tokenizer;
    MaskedText masked;
    Err err = {0};
    char *text = data_fixture_text(1, SIZE);
    for (size_t at = 0; at + sizeof joined < SIZE / 2; at += sizeof joined - 1)
        memcpy(text + at, joined, sizeof joined - 1);
    data_fixture_config(&config);
    config.tokenizer.type = TOKENIZER_BPE;
    char *path = data_fixture_write("joined.txt", text, SIZE);
    data_fixture_add(&config.data.train, path);
    if (!CHECK_MSG(tokenizer_train(&config, &err), "%s", err.msg)) test_end();
    REQUIRE(tokenizer_load(&tokenizer, config.tokenizer.model, &err));
    CHECK(!masked_text_encode(&masked, tokenizer, text_behind, sizeof text_behind - 1, &err));
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_STR_CONTAINS(err.msg, "U+E000");
    CHECK(masked_text_encode(&masked, tokenizer, "karo <mask>", 11, &err));
    masked_text_free(&masked);
    tokenizer_destroy(tokenizer);
    data_fixture_free(&config);
    free(path);
    free(text);
}

/* Weights that went wrong are no prediction. */
static void test_nonfinite_model(void) {
    LoadedModel model;
    FillMask fill;
    MaskedText text;
    Err err = {0};
    Fill fills[3];
    lab_fixture_model(&model);
    model.params.layers[1].ff1_w[7] = (real)NAN;
    REQUIRE(fill_mask_create(&fill, &model, NULL));
    REQUIRE(masked_text_encode(&text, model.tokenizer, "karo <mask>", 11, NULL));
    CHECK(!fill_mask_predict(fills, &fill, &text, 3, &err));
    CHECK_INT(err.code, ERR_NONFINITE);
    CHECK_STR_CONTAINS(err.msg, "layer1.ff1_w");
    CHECK_STR_CONTAINS(err.msg, "model.ckpt");
    masked_text_free(&text);
    fill_mask_destroy(&fill);
    loaded_model_close(&model);
}

static void test_refused_texts(void) {
    LoadedModel model;
    FillMask fill;
    MaskedText text;
    Err err = {0};
    Fill one;
    lab_fixture_model(&model);
    REQUIRE(fill_mask_create(&fill, &model, NULL));
    REQUIRE(masked_text_encode(&text, model.tokenizer, "karo", 4, NULL));
    CHECK(!fill_mask_predict(&one, &fill, &text, 1, &err));
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_STR_CONTAINS(err.msg, "no <mask>");
    masked_text_free(&text);

    char longest[23 * 6 + 1] = ""; /* 22 masks with <s> and </s> fill n = 24 */
    for (size_t i = 0; i < 22; i++) strcat(longest, "<mask>");
    Fill fills[23];
    REQUIRE(masked_text_encode(&text, model.tokenizer, longest, strlen(longest), NULL));
    CHECK(fill_mask_predict(fills, &fill, &text, 1, &err));
    masked_text_free(&text);
    strcat(longest, "<mask>");
    REQUIRE(masked_text_encode(&text, model.tokenizer, longest, strlen(longest), NULL));
    CHECK(!fill_mask_predict(fills, &fill, &text, 1, &err));
    CHECK_INT(err.code, ERR_CONFIG);
    CHECK_STR_CONTAINS(err.msg, "25 tokens");
    CHECK_STR_CONTAINS(err.msg, "n = 24");
    masked_text_free(&text);
    fill_mask_destroy(&fill);
    loaded_model_close(&model);
}

const Test tests_fill_mask[] = {
    {"mask_inside_text", test_mask_inside_text, TEST_FLOAT},
    {"mask_before_full_stop", test_mask_before_full_stop, TEST_FLOAT},
    {"several_masks", test_several_masks, TEST_FLOAT},
    {"specials_are_text", test_specials_are_text, TEST_FLOAT},
    {"probabilities", test_probabilities, 0},
    {"stopper_in_vocabulary", test_stopper_in_vocabulary, TEST_FLOAT},
    {"nonfinite_model", test_nonfinite_model, 0},
    {"refused_texts", test_refused_texts, TEST_FLOAT},
    {0},
};
