#include "predict.h"

#include <stdlib.h>

#include "batcher.h"
#include "class_eval.h"
#include "class_fixture.h"
#include "classifier_head.h"
#include "encoder.h"
#include "harness.h"
#include "lab_fixture.h"
#include "task_data.h"

enum { ROWS = 61, CLASSES = 3 };

static const char *const LABELS[] = {"bad", "so so", "good", NULL};
static const char CUSTOM[] = "task: custom, text: text, label: label";

/* Another order of a product's terms, in float: measured 2e-7. */
static const double TOLERANCE = 1e-6;

static double *predict(const LoadedModel *model, const TaskFile *rows, size_t batch) {
    Predictor predictor;
    Err err = {0};
    size_t classes = model->checkpoint.labels.count;
    double *p = malloc((rows->count * classes + 1) * sizeof *p);
    REQUIRE(p);
    CHECK_MSG(predictor_create(&predictor, model, batch, &err) &&
                  predictor_run(p, &predictor, rows, &err),
              "%s", err.msg);
    if (err.code) test_end();
    CHECK_INT(predictor.rows, rows->count);
    predictor_destroy(&predictor);
    return p;
}

/* Row i of a belongs to row order[i] of b. */
static void check_same(const double *a, const double *b, const size_t *order, size_t count,
                       size_t classes, const char *what) {
    for (size_t i = 0; i < count; i++) {
        const double *p = a + i * classes, *q = b + order[i] * classes;
        CHECK_MSG(predict_best(p, classes) == predict_best(q, classes),
                  "%s: another label of row %zu", what, i);
        for (size_t c = 0; c < classes; c++)
            CHECK_MSG(test_close(p[c], q[c], TOLERANCE), "%s: row %zu: %.9g and %.9g", what, i,
                      p[c], q[c]);
    }
}

/* Texts one at a time, in batches of any size, and in another order. */
static void check_batches(const char *finetune, bool pairs) {
    LoadedModel model;
    TaskFile rows;
    class_fixture_model(&model, finetune, LABELS);
    class_fixture_rows(&rows, ROWS, CLASSES, pairs, 5);
    double *alone = malloc(ROWS * CLASSES * sizeof *alone);
    size_t same[ROWS], reversed[ROWS], seen[CLASSES] = {0};
    REQUIRE(alone);
    for (size_t i = 0; i < ROWS; i++) {
        TaskFile one = {.rows = rows.rows + i, .count = 1, .pairs = pairs};
        double *p = predict(&model, &one, 1);
        memcpy(alone + i * CLASSES, p, CLASSES * sizeof *p);
        free(p);
        same[i] = i;
        reversed[i] = ROWS - 1 - i;
        seen[predict_best(alone + i * CLASSES, CLASSES)]++;
        double sum = 0;
        for (size_t c = 0; c < CLASSES; c++) sum += alone[i * CLASSES + c];
        CHECK_CLOSE(sum, 1, 1e-6); /* three roundings of float logarithms */
    }
    CHECK(seen[0] + seen[1] + seen[2] == ROWS && seen[0] < ROWS && seen[1] < ROWS &&
          seen[2] < ROWS); /* else a mixed-up order would not show */
    static const size_t batches[] = {0, 1, 2, 7, 1000};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        double *p = predict(&model, &rows, batches[i]);
        check_same(p, alone, same, ROWS, CLASSES, "in batches");
        free(p);
    }
    TaskFile backwards = rows;
    backwards.rows = malloc(ROWS * sizeof *backwards.rows);
    REQUIRE(backwards.rows);
    for (size_t i = 0; i < ROWS; i++) backwards.rows[i] = rows.rows[ROWS - 1 - i];
    double *p = predict(&model, &backwards, 0);
    check_same(p, alone, reversed, ROWS, CLASSES, "backwards");
    free(p);
    free(backwards.rows);
    free(alone);
    class_fixture_rows_free(&rows);
    loaded_model_close(&model);
}

static void test_any_batch_and_order(void) {
    check_batches(CUSTOM, false);
}

static void test_any_batch_and_order_of_pairs(void) {
    check_batches("task: custom, text: a, text_pair: b, label: label", true);
}

/* The tokens by hand, the head's own loss for every class. */
static void test_probabilities_are_the_heads(void) {
    LoadedModel model;
    TaskFile rows;
    Activations acts;
    class_fixture_model(&model, CUSTOM, LABELS);
    class_fixture_rows(&rows, 3, CLASSES, false, 9);
    for (size_t i = 0; i < 3; i++) rows.rows[i].size[0] %= 12; /* fits n */
    const ModelConfig *config = &model.checkpoint.config.model;
    REQUIRE(activations_create(&acts, config, 1, config->n, ACTS_INFERENCE, NULL));
    double *p = predict(&model, &rows, 0);
    for (size_t i = 0; i < 3; i++) {
        uint32_t ids[24] = {TOKEN_BOS}, *found = NULL;
        size_t count, capacity = 0;
        REQUIRE(tokenizer_encode(model.tokenizer, &found, &count, &capacity, rows.rows[i].text[0],
                                 rows.rows[i].size[0], NULL));
        REQUIRE(count <= 22);
        if (count) memcpy(ids + 1, found, count * sizeof *ids);
        ids[count + 1] = TOKEN_EOS;
        free(found);
        size_t start[2] = {0, count + 2};
        uint64_t seq_key = 0;
        Batch batch = {.B = 1, .total = count + 2, .start = start, .ids = ids, .seq_key = &seq_key};
        encoder_forward(&acts, &model.params, config, &batch);
        classifier_head_log_probs(&acts, &model.params, config, &batch);
        for (size_t c = 0; c < CLASSES; c++)
            CHECK_CLOSE(p[i * CLASSES + c], exp((double)acts.class_logits[c]), TOLERANCE);
    }
    free(p);
    activations_destroy(&acts);
    class_fixture_rows_free(&rows);
    loaded_model_close(&model);
}

/* Scores agree with the probabilities, and with those that the buffers of a training give. */
static void test_score(void) {
    LoadedModel model;
    TaskFile rows;
    Predictor predictor;
    ClassScore score, trained;
    class_fixture_model(&model, CUSTOM, LABELS);
    class_fixture_rows(&rows, ROWS, CLASSES, false, 5);
    double *p = predict(&model, &rows, 0), loss = 0;
    uint64_t confusion[CLASSES * CLASSES] = {0};
    for (size_t i = 0; i < ROWS; i++) {
        size_t truth = (size_t)rows.rows[i].label;
        confusion[truth * CLASSES + predict_best(p + i * CLASSES, CLASSES)]++;
        loss -= log(p[i * CLASSES + truth]) / ROWS;
    }
    REQUIRE(predictor_create(&predictor, &model, 0, NULL));
    CHECK_INT(predictor.acts.max_B, 5);
    CHECK_INT(predictor.acts.max_total, 3 * 24);
    REQUIRE(predictor_score(&score, &predictor, &rows, NULL));
    for (size_t i = 0; i < CLASSES * CLASSES; i++) CHECK_INT(score.confusion[i], confusion[i]);
    CHECK_CLOSE(score.loss, loss, TOLERANCE);
    CHECK_INT(score.count, ROWS);

    const Config *config = &model.checkpoint.config;
    Activations acts;
    Batch batch;
    TaskData data;
    real *log_probs = calloc(ROWS * CLASSES, sizeof *log_probs);
    REQUIRE(log_probs && batch_create(&batch, 3, 24, NULL));
    REQUIRE(activations_create(&acts, &config->model, 5, 3 * 24, ACTS_TRAINING, NULL));
    REQUIRE(task_data_encode(&data, &rows, &config->finetune, model.tokenizer, 24, NULL));
    acts.mode = ACTS_INFERENCE;
    REQUIRE(
        class_eval_predict(log_probs, &acts, &batch, &model.params, &config->model, &data, NULL));
    REQUIRE(class_eval_score(&trained, log_probs, &data, CLASSES, NULL));
    CHECK_CLOSE(trained.loss, score.loss, 0); /* to the last bit */
    CHECK_CLOSE(trained.mcc, score.mcc, 0);
    class_score_free(&trained);
    task_data_free(&data);
    batch_destroy(&batch);
    activations_destroy(&acts);
    free(log_probs);

    Err err = {0};
    rows.rows[3].label = TASK_NO_LABEL;
    CHECK(!predictor_score(&trained, &predictor, &rows, &err));
    CHECK_STR_CONTAINS(err.msg, "row 4 has the class -1");
    class_score_free(&score);
    predictor_destroy(&predictor);
    free(p);
    class_fixture_rows_free(&rows);
    loaded_model_close(&model);
}

/* Over-long texts are cut as the checkpoint's config says, and counted. */
static void test_long_texts(void) {
    static const struct {
        Truncate truncate;
        bool head_counts, tail_counts;
    } cases[] = {
        {TRUNCATE_HEAD, true, false}, {TRUNCATE_TAIL, false, true}, {TRUNCATE_BOTH, true, true}};
    LoadedModel model;
    Predictor predictor;
    char text[3][200] = {"karo mites", "lun mites", "karo mites"};
    TaskRow items[3];
    const TaskFile rows = {.count = 3, .rows = items};
    double p[3 * 2];
    class_fixture_model(&model, "task: sst2, truncate: tail",
                        (const char *const[]){"negative", "positive", NULL});
    CHECK_INT(model.checkpoint.config.finetune.truncate, TRUNCATE_TAIL);
    REQUIRE(predictor_create(&predictor, &model, 0, NULL));
    for (size_t r = 0; r < 3; r++) { /* the second differs at its head, the last at its tail */
        while (strlen(text[r]) < 150) strcat(text[r], " wa dunel");
        strcat(text[r], r == 2 ? " shapi" : " veor");
        items[r] = (TaskRow){.text = {text[r]}, .size = {strlen(text[r])}, .label = -1};
    }
    for (size_t i = 0; i < 3; i++) {
        model.checkpoint.config.finetune.truncate = cases[i].truncate;
        REQUIRE(predictor_run(p, &predictor, &rows, NULL));
        CHECK_INT(predictor.cut, 3 * (i + 1));
        CHECK((fabs(p[0] - p[2]) > 1e-5) == cases[i].head_counts);
        CHECK((fabs(p[0] - p[4]) > 1e-5) == cases[i].tail_counts);
    }
    items[1].size[0] = 10;
    REQUIRE(predictor_run(p, &predictor, &rows, NULL));
    CHECK_INT(predictor.cut, 11);
    CHECK_INT(predictor.rows, 12);
    predictor_destroy(&predictor);
    loaded_model_close(&model);
}

static void test_first_of_equals(void) {
    static const real log_probs[] = {-2, -1, -3, -1};
    static const double probabilities[] = {0.2, 0.1, 0.35, 0.35};
    CHECK_INT(class_eval_best(log_probs, 4), 1);
    CHECK_INT(class_eval_best(log_probs, 1), 0);
    CHECK_INT(predict_best(probabilities, 4), 2);
    CHECK_INT(predict_best(probabilities, 2), 0);
}

static void test_refused_models(void) {
    LoadedModel model;
    Predictor predictor;
    TaskFile rows;
    Err err = {0};
    lab_fixture_model(&model);
    CHECK(!predictor_create(&predictor, &model, 0, &err));
    CHECK_STR_CONTAINS(err.msg, "finetune");
    CHECK_STR_CONTAINS(err.msg, "model.ckpt");
    predictor_destroy(&predictor);
    loaded_model_close(&model);

    class_fixture_model(&model, CUSTOM, LABELS);
    model.checkpoint.config.finetune.task = TASK_NONE;
    CHECK(!predictor_create(&predictor, &model, 0, &err));
    CHECK_STR_CONTAINS(err.msg, "no finetune.task");
    model.checkpoint.config.finetune.task = TASK_CUSTOM;

    class_fixture_rows(&rows, 4, CLASSES, false, 1);
    model.params.class_out_b[1] = (real)NAN;
    double p[4 * CLASSES];
    REQUIRE(predictor_create(&predictor, &model, 0, &err));
    CHECK(!predictor_run(p, &predictor, &rows, &err));
    CHECK_STR_CONTAINS(err.msg, "rows:1: the model gives no finite");
    CHECK_INT(err.code, ERR_NONFINITE);
    predictor_destroy(&predictor);
    class_fixture_rows_free(&rows);
    loaded_model_close(&model);
}

const Test tests_predict[] = {
    {"any_batch_and_order", test_any_batch_and_order, 0},
    {"any_batch_and_order_of_pairs", test_any_batch_and_order_of_pairs, 0},
    {"probabilities_are_the_heads", test_probabilities_are_the_heads, 0},
    {"score", test_score, 0},
    {"long_texts", test_long_texts, TEST_FLOAT},
    {"first_of_equals", test_first_of_equals, TEST_FLOAT},
    {"refused_models", test_refused_models, TEST_FLOAT},
    {0},
};
