#!/usr/bin/env python3
"""Writes tests/refs/class_score.txt: scores of random predictions as scikit-learn computes them.

    python3 scripts/make_score_refs.py [file]      (needs scikit-learn; the tests do not)

The file holds two lines for each case: the numbers

    classes rows accuracy f1 macro_f1 mcc majority

where f1 is that of class 1 for two classes and macro_f1 for more; then for each row the true and
the predicted class, as characters '0' + class, without blanks between them.
tests/test_class_score.c reads it.
"""

import os
import sys
import warnings

import numpy as np
from sklearn import metrics

# name: classes, rows, true frequencies, share of rows predicted rightly (negative: as the class
# after the true one), frequencies of the other predictions
CASES = {
    "balanced pair": (2, 300, [1, 1], 0.7, [1, 1]),
    "rare class 1": (2, 400, [19, 1], 0.5, [3, 1]),
    "worse than chance": (2, 200, [2, 1], -0.6, [1, 2]),
    "constant": (2, 150, [2, 1], 0.0, [1, 0]),
    "only class 0 is true": (2, 50, [1, 0], 0.5, [1, 1]),
    "three": (3, 333, [5, 3, 2], 0.6, [1, 1, 1]),
    "a class that is never true": (5, 250, [4, 0, 3, 2, 1], 0.4, [1, 1, 1, 1, 1]),
    "a class that is nowhere": (6, 250, [4, 2, 3, 0, 2, 1], 0.4, [1, 1, 1, 0, 1, 1]),
    "many, few rows": (9, 11, [1] * 9, 0.3, [1] * 9),
    "one row": (3, 1, [0, 1, 0], 0.0, [1, 0, 0]),
    "perfect": (4, 77, [4, 3, 2, 1], 1.0, [1, 1, 1, 1]),
}


def draw(rng, classes, rows, frequencies):
    p = np.array(frequencies, dtype=float)
    return rng.choice(classes, size=rows, p=p / p.sum())


def write_case(out, rng, classes, rows, truth_frequencies, right, guess_frequencies):
    truth = draw(rng, classes, rows, truth_frequencies)
    guess = draw(rng, classes, rows, guess_frequencies)
    told = truth if right >= 0 else (truth + 1) % classes
    predicted = np.where(rng.random(rows) < abs(right), told, guess)
    macro = metrics.f1_score(truth, predicted, average="macro", zero_division=0)
    f1 = macro
    if classes == 2:
        f1 = metrics.f1_score(truth, predicted, pos_label=1, zero_division=0)
    numbers = [
        metrics.accuracy_score(truth, predicted),
        f1,
        macro,
        metrics.matthews_corrcoef(truth, predicted),
        np.bincount(truth).max() / rows,
    ]
    out.write(f"{classes} {rows} " + " ".join(f"{float(x):.17g}" for x in numbers) + "\n")
    out.write("".join(f"{t}{p}" for t, p in zip(truth, predicted)) + "\n")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    path = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "../tests/refs/class_score.txt")
    warnings.simplefilter("ignore")  # scikit-learn warns where a score is undefined
    rng = np.random.default_rng(2024)
    with open(path, "w", encoding="ascii") as out:
        for case in CASES.values():
            write_case(out, rng, *case)


if __name__ == "__main__":
    main()
