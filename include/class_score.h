/* How good predicted classes are: accuracy, F1, Matthews correlation, confusion matrix, loss, and
 * what always answering the most frequent class would reach. */
#ifndef CLASS_SCORE_H
#define CLASS_SCORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "err.h"

typedef struct ClassScore {
    size_t classes, count;
    uint64_t *confusion; /* (classes, classes): rows true class, columns predicted */
    double loss;         /* nats a row */
    double accuracy;
    double majority; /* accuracy of the most frequent true class */
    double f1;       /* two classes: of class 1; more: macro_f1 */
    double macro_f1; /* mean of F1 over the classes that are true or predicted somewhere */
    double mcc;      /* multi-class Matthews correlation (Gorodkin 2004); 0 where undefined */
    /* 1 + the class that every prediction is, though the truth has several; else 0 */
    size_t collapsed;
} ClassScore;

/* From truth and predicted (count) classes below `classes`, and the summed loss.  Fails without
 * rows, or where a class is out of range (a row without a label). */
bool class_score_compute(ClassScore *out, const int32_t *truth, const int32_t *predicted,
                         size_t count, size_t classes, double loss_sum, Err *err);
void class_score_free(ClassScore *score); /* accepts a zeroed score */

#endif
