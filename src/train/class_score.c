#include "class_score.h"

#include <math.h>
#include <stdlib.h>

static uint64_t cell(const ClassScore *s, size_t truth, size_t predicted) {
    return s->confusion[truth * s->classes + predicted];
}

static uint64_t truth_sum(const ClassScore *s, size_t c) {
    uint64_t sum = 0;
    for (size_t p = 0; p < s->classes; p++) sum += cell(s, c, p);
    return sum;
}

static uint64_t predicted_sum(const ClassScore *s, size_t c) {
    uint64_t sum = 0;
    for (size_t t = 0; t < s->classes; t++) sum += cell(s, t, c);
    return sum;
}

/* Harmonic mean of precision and recall as one fraction, which is defined unless the class is
 * neither true nor predicted anywhere. */
static double class_f1(const ClassScore *s, size_t c) {
    uint64_t either = truth_sum(s, c) + predicted_sum(s, c);
    return either ? 2 * (double)cell(s, c, c) / (double)either : 0;
}

/* Over the classes that are true or predicted somewhere: a label of other rows is no failure. */
static double macro_f1(const ClassScore *s) {
    double sum = 0;
    size_t there = 0;
    for (size_t c = 0; c < s->classes; c++) {
        sum += class_f1(s, c);
        there += truth_sum(s, c) + predicted_sum(s, c) > 0;
    }
    return sum / (double)there;
}

/* The correlation of truth and prediction as one-hot vectors. */
static double correlation(const ClassScore *s) {
    double n = (double)s->count, right = 0, both = 0, truth = 0, predicted = 0;
    for (size_t c = 0; c < s->classes; c++) {
        double t = (double)truth_sum(s, c), p = (double)predicted_sum(s, c);
        right += (double)cell(s, c, c);
        both += t * p;
        truth += t * t;
        predicted += p * p;
    }
    double truth_spread = n * n - truth, predicted_spread = n * n - predicted;
    if (!(truth_spread > 0 && predicted_spread > 0)) return 0; /* one of them is constant */
    return (right * n - both) / (sqrt(truth_spread) * sqrt(predicted_spread));
}

/* 1 + the only class predicted where the truth has several, else 0. */
static size_t collapsed_class(const ClassScore *s) {
    for (size_t c = 0; c < s->classes; c++) {
        if (predicted_sum(s, c) == s->count) return truth_sum(s, c) < s->count ? c + 1 : 0;
    }
    return 0;
}

static bool count_cells(ClassScore *s, const int32_t *truth, const int32_t *predicted, Err *err) {
    for (size_t i = 0; i < s->count; i++) {
        if ((size_t)truth[i] >= s->classes) /* also where it is negative */
            return err_set(err, ERR_FAILED,
                           "row %zu has the class %ld, wanted 0 to %zu: scores need labels", i + 1,
                           (long)truth[i], s->classes - 1);
        if ((size_t)predicted[i] >= s->classes)
            return err_set(err, ERR_FAILED, "row %zu is predicted as class %ld, wanted 0 to %zu",
                           i + 1, (long)predicted[i], s->classes - 1);
        s->confusion[(size_t)truth[i] * s->classes + (size_t)predicted[i]]++;
    }
    return true;
}

bool class_score_compute(ClassScore *out, const int32_t *truth, const int32_t *predicted,
                         size_t count, size_t classes, double loss_sum, Err *err) {
    *out = (ClassScore){.classes = classes, .count = count};
    if (count == 0 || classes == 0)
        return err_set(err, ERR_FAILED, "%zu rows of %zu classes: nothing to score", count,
                       classes);
    /* calloc refuses a product that does not fit */
    out->confusion =
        classes <= SIZE_MAX / classes ? calloc(classes * classes, sizeof *out->confusion) : NULL;
    if (!out->confusion)
        return err_set(err, ERR_FAILED, "no memory for a confusion matrix of %zu classes", classes);
    if (!count_cells(out, truth, predicted, err)) {
        class_score_free(out);
        return false;
    }
    uint64_t right = 0, most = 0;
    for (size_t c = 0; c < classes; c++) {
        uint64_t rows = truth_sum(out, c);
        right += cell(out, c, c);
        if (rows > most) most = rows;
    }
    out->macro_f1 = macro_f1(out);
    out->loss = loss_sum / (double)count;
    out->accuracy = (double)right / (double)count;
    out->majority = (double)most / (double)count;
    out->f1 = classes == 2 ? class_f1(out, 1) : out->macro_f1;
    out->mcc = correlation(out);
    out->collapsed = collapsed_class(out);
    return true;
}

void class_score_free(ClassScore *score) {
    if (!score) return;
    free(score->confusion);
    *score = (ClassScore){0};
}
