#include "class_score.h"

#include <stdio.h>
#include <stdlib.h>

#include "finetune.h"
#include "harness.h"
#include "io.h"
#include "rng.h"

static ClassScore compute(const int32_t *truth, const int32_t *predicted, size_t count,
                          size_t classes, double loss_sum) {
    ClassScore score;
    Err err = {0};
    CHECK_MSG(class_score_compute(&score, truth, predicted, count, classes, loss_sum, &err), "%s",
              err.msg);
    REQUIRE(score.confusion);
    return score;
}

/* Two classes: 3 of class 1 found, 1 missed, 2 false, 4 of class 0 right. */
static void test_two_classes_by_hand(void) {
    static const int32_t truth[] = {1, 1, 0, 1, 0, 0, 1, 0, 0, 0},
                         predicted[] = {1, 0, 1, 1, 0, 0, 1, 0, 1, 0};
    ClassScore s = compute(truth, predicted, 10, 2, 5);
    static const uint64_t confusion[] = {4, 2, 1, 3};
    for (size_t i = 0; i < 4; i++) CHECK_INT(s.confusion[i], confusion[i]);
    CHECK_INT(s.classes, 2);
    CHECK_INT(s.count, 10);
    CHECK_CLOSE(s.loss, 0.5, 0);
    CHECK_CLOSE(s.accuracy, 0.7, 1e-15);
    CHECK_CLOSE(s.majority, 0.6, 1e-15);
    CHECK_CLOSE(s.f1, 6. / 9, 1e-15); /* 2 tp / (2 tp + fp + fn) */
    CHECK_CLOSE(s.macro_f1, (6. / 9 + 8. / 11) / 2, 1e-15);
    CHECK_CLOSE(s.mcc, (3. * 4 - 2. * 1) / sqrt(5. * 4 * 6 * 5), 1e-15);
    CHECK_INT(s.collapsed, 0);
    class_score_free(&s);
}

/* Three classes, of which class 2 is neither true nor predicted, and counts nowhere. */
static void test_three_classes_by_hand(void) {
    static const int32_t truth[] = {0, 0, 1, 1}, predicted[] = {0, 1, 1, 1};
    ClassScore s = compute(truth, predicted, 4, 3, 0);
    CHECK_CLOSE(s.macro_f1, (2. / 3 + 4. / 5) / 2, 1e-15);
    CHECK_CLOSE(s.f1, s.macro_f1, 0);
    CHECK_CLOSE(s.mcc, (3. * 4 - (2 * 1 + 2 * 3)) / sqrt((16. - 8) * (16. - 10)), 1e-15);
    CHECK_CLOSE(s.majority, 0.5, 0);
    class_score_free(&s);
}

static void test_constant_predictions(void) {
    static const int32_t mixed[] = {0, 2, 1, 0, 0, 2}, twos[] = {2, 2, 2, 2, 2, 2};
    ClassScore s = compute(mixed, twos, 6, 3, 0);
    CHECK_CLOSE(s.mcc, 0, 0);
    CHECK_INT(s.collapsed, 3);
    CHECK_CLOSE(s.accuracy, 2. / 6, 1e-15);
    CHECK_CLOSE(s.majority, 0.5, 0);
    class_score_free(&s);
    s = compute(twos, twos, 6, 3, 0); /* nothing else to predict */
    CHECK_CLOSE(s.mcc, 0, 0);
    CHECK_INT(s.collapsed, 0);
    CHECK_CLOSE(s.accuracy, 1, 0);
    CHECK_CLOSE(s.majority, 1, 0);
    class_score_free(&s);
    s = compute(twos, mixed, 6, 3, 0);
    CHECK_CLOSE(s.mcc, 0, 0);
    CHECK_INT(s.collapsed, 0);
    class_score_free(&s);
}

static void test_perfect_is_one(void) {
    static const int32_t truth[] = {0, 2, 1, 0, 3, 2};
    ClassScore s = compute(truth, truth, 6, 4, 0);
    CHECK_CLOSE(s.accuracy, 1, 0);
    CHECK_CLOSE(s.f1, 1, 0);
    CHECK_CLOSE(s.macro_f1, 1, 0);
    CHECK_CLOSE(s.mcc, 1, 1e-15);
    class_score_free(&s);
    static const int32_t pair[] = {0, 1, 1}, swapped[] = {1, 0, 0};
    s = compute(pair, swapped, 3, 2, 0);
    CHECK_CLOSE(s.accuracy, 0, 0);
    CHECK_CLOSE(s.mcc, -1, 1e-15);
    class_score_free(&s);
}

/* The names of the classes do not matter, but for which one of two is class 1; nor does the order
 * of the rows. */
static void test_permuted_classes(void) {
    enum { CLASSES = 5, ROWS = 97 };
    static const int32_t other[CLASSES] = {3, 0, 4, 2, 1};
    int32_t truth[ROWS], predicted[ROWS], truth2[ROWS], predicted2[ROWS];
    uint64_t key = rng_key(test_seed(), RNG_TEST, 1, 0);
    for (size_t i = 0; i < ROWS; i++) {
        truth[i] = (int32_t)rng_below(key, 3 * i, CLASSES);
        bool right = rng_uniform(key, 3 * i + 1) < 0.5;
        predicted[i] = right ? truth[i] : (int32_t)rng_below(key, 3 * i + 2, CLASSES);
        truth2[ROWS - 1 - i] = other[truth[i]];
        predicted2[ROWS - 1 - i] = other[predicted[i]];
    }
    ClassScore a = compute(truth, predicted, ROWS, CLASSES, 7),
               b = compute(truth2, predicted2, ROWS, CLASSES, 7);
    size_t unlike = 0;
    for (size_t t = 0; t < CLASSES; t++) {
        for (size_t p = 0; p < CLASSES; p++) {
            unlike += a.confusion[t * CLASSES + p] != a.confusion[p * CLASSES + t];
            CHECK_INT(a.confusion[t * CLASSES + p],
                      b.confusion[(size_t)other[t] * CLASSES + (size_t)other[p]]);
        }
    }
    CHECK(unlike > 0); /* else rows and columns look alike */
    CHECK_CLOSE(a.accuracy, b.accuracy, 0);
    CHECK_CLOSE(a.majority, b.majority, 0);
    CHECK_CLOSE(a.macro_f1, b.macro_f1, 1e-15);
    CHECK_CLOSE(a.mcc, b.mcc, 1e-15);
    /* MCC and accuracy do not ask which side is the truth */
    ClassScore c = compute(predicted, truth, ROWS, CLASSES, 7);
    CHECK_CLOSE(a.mcc, c.mcc, 1e-15);
    CHECK_CLOSE(a.macro_f1, c.macro_f1, 1e-15);
    class_score_free(&a);
    class_score_free(&b);
    class_score_free(&c);
}

static void test_metric_by_name(void) {
    const FinetuneScore s = {.accuracy = 0.1, .f1 = 0.2, .mcc = 0.3, .loss = 0.4};
    CHECK_CLOSE(finetune_metric(&s, METRIC_ACCURACY), 0.1, 0);
    CHECK_CLOSE(finetune_metric(&s, METRIC_F1), 0.2, 0);
    CHECK_CLOSE(finetune_metric(&s, METRIC_MCC), 0.3, 0);
}

static void test_better_score(void) {
    const FinetuneScore s = {.accuracy = 0.5, .f1 = 0.2, .mcc = 0.3, .loss = 0.4},
                        sure = {.accuracy = 0.5, .f1 = 0.1, .mcc = 0.3, .loss = 0.3};
    CHECK(finetune_is_better(&sure, &s, METRIC_ACCURACY)); /* a tie, at a lower loss */
    CHECK(!finetune_is_better(&s, &sure, METRIC_ACCURACY));
    CHECK(!finetune_is_better(&s, &s, METRIC_ACCURACY));
    CHECK(finetune_is_better(&s, &sure, METRIC_F1)); /* whatever its loss */
}

static void check_refused(const int32_t *truth, const int32_t *predicted, size_t count,
                          const char *message) {
    ClassScore s;
    Err err = {0};
    CHECK(!class_score_compute(&s, truth, predicted, count, 3, 0, &err));
    CHECK_INT(err.code, ERR_FAILED);
    CHECK_STR_CONTAINS(err.msg, message);
    CHECK(s.confusion == NULL);
}

static void test_refused(void) {
    static const int32_t good[] = {0, 1, 2}, unlabelled[] = {0, -1, 2}, high[] = {0, 1, 3};
    check_refused(good, good, 0, "nothing to score");
    check_refused(unlabelled, good, 3, "row 2 has the class -1");
    check_refused(high, good, 3, "row 3 has the class 3, wanted 0 to 2");
    check_refused(good, high, 3, "row 3 is predicted as class 3");
    check_refused(good, unlabelled, 3, "row 2 is predicted as class -1");
    ClassScore s = {0};
    class_score_free(&s);
    class_score_free(NULL);
}

/* A line of the reference file, terminated in place. */
static char *next_line(char **at) {
    char *line = *at, *end = strchr(line, '\n');
    REQUIRE(end);
    *end = 0;
    *at = end + 1;
    return line;
}

/* scikit-learn's numbers; scripts/make_score_refs.py describes the file.  The tolerance is a few
 * roundings in double. */
static void test_against_reference(void) {
    enum { CASES = 11, NUMBERS = 7 };
    const char *file = __FILE__, *slash = strrchr(file, '/');
    char path[512];
    Bytes bytes;
    Err err = {0};
    snprintf(path, sizeof path, "%.*s/refs/class_score.txt", slash ? (int)(slash - file) : 1,
             slash ? file : ".");
    CHECK_MSG(io_read_file(&bytes, path, 1 << 20, &err), "%s", err.msg);
    REQUIRE(bytes.data);
    char *at = (char *)bytes.data;
    size_t cases = 0;
    for (; *at; cases++) {
        char *text = next_line(&at), *rows = next_line(&at);
        double numbers[NUMBERS];
        for (size_t i = 0; i < NUMBERS; i++) numbers[i] = strtod(text, &text);
        REQUIRE(*text == 0);
        size_t classes = (size_t)numbers[0], count = (size_t)numbers[1];
        REQUIRE(count > 0 && strlen(rows) == 2 * count);
        int32_t *truth = calloc(2 * count, sizeof *truth), *predicted = truth + count;
        REQUIRE(truth);
        for (size_t i = 0; i < count; i++) {
            truth[i] = rows[2 * i] - '0';
            predicted[i] = rows[2 * i + 1] - '0';
        }
        ClassScore s = compute(truth, predicted, count, classes, 0);
        const double got[] = {s.accuracy, s.f1, s.macro_f1, s.mcc, s.majority};
        for (size_t i = 0; i < sizeof got / sizeof *got; i++)
            CHECK_MSG(test_close(got[i], numbers[2 + i], 1e-14),
                      "case %zu, number %zu: %.17g, "
                      "wanted %.17g",
                      cases, i, got[i], numbers[2 + i]);
        class_score_free(&s);
        free(truth);
    }
    CHECK_INT(cases, CASES);
    io_bytes_free(&bytes);
}

const Test tests_class_score[] = {
    {"two_classes_by_hand", test_two_classes_by_hand, TEST_FLOAT},
    {"three_classes_by_hand", test_three_classes_by_hand, TEST_FLOAT},
    {"constant_predictions", test_constant_predictions, TEST_FLOAT},
    {"perfect_is_one", test_perfect_is_one, TEST_FLOAT},
    {"permuted_classes", test_permuted_classes, TEST_FLOAT},
    {"metric_by_name", test_metric_by_name, TEST_FLOAT},
    {"better_score", test_better_score, TEST_FLOAT},
    {"refused", test_refused, TEST_FLOAT},
    {"against_reference", test_against_reference, TEST_FLOAT},
    {0},
};
