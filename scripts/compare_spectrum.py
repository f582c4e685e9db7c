#!/usr/bin/env python3
"""Compares the singular values of `linformer spectrum --dump-matrices` with NumPy's on the same matrices.

    compare_spectrum.py DIR/matrices

Development only; needs NumPy. NumPy works in double on the float32 entries of the files, as the program does, and takes
Pbar F itself for the effective maps. Every value above 1e-6 of the matrix's largest must agree to 1e-4 of itself; below that
the largest value's rounding (in the file of F, a float32 product's) is what is left.
"""

import re
import sys
from pathlib import Path

import numpy as np

TOLERANCE, SMALLEST = 1e-4, 1e-6


def projection(folder, layer, head):
    """F of a head: its own, or the one its layer's heads share."""
    own = folder / f"layer{layer}.head{head}.f.npy"
    return np.load(own if own.exists() else folder / f"layer{layer}.head0.f.npy").astype(np.float64)


def worst_difference(ours, matrix):
    numpys = np.linalg.svd(matrix, compute_uv=False)[: ours.size]
    compared = numpys > SMALLEST * numpys[0]
    return np.max(np.abs(ours - numpys)[compared] / numpys[compared]), int(compared.sum())


def main(folder):
    worst = {"P": [0.0, 0, 0], "Pbar F": [0.0, 0, 0]}
    for path in sorted(folder.glob("layer*.head*.p.npy")):
        layer, head = map(int, re.fullmatch(r"layer(\d+)\.head(\d+)\.p\.npy", path.name).groups())
        p = np.load(path).astype(np.float64)
        if abs(p.sum(axis=1) - 1).max() > 1e-5:
            sys.exit(f"{path}: rows do not add up to 1")
        values = np.load(folder / f"layer{layer}.head{head}.p_values.npy")[0]
        pairs = [("P", values, p)]
        effective = folder / f"layer{layer}.head{head}.pf_values.npy"
        if effective.exists():
            pairs.append(("Pbar F", np.load(effective)[0], p @ projection(folder, layer, head)))
        for kind, ours, matrix in pairs:
            difference, compared = worst_difference(ours, matrix)
            record = worst[kind]
            record[:] = max(record[0], difference), record[1] + compared, record[2] + 1
    if not worst["P"][2]:
        sys.exit(f"{folder}: no layer*.head*.p.npy; run linformer spectrum with --dump-matrices")
    bad = False
    for kind, (difference, compared, matrices) in worst.items():
        if matrices:
            print(f"{kind}: {matrices} matrices, {compared} singular values, worst relative difference {difference:.2e}")
            bad = bad or not difference <= TOLERANCE
    if bad:
        sys.exit(f"more than {TOLERANCE:g} apart")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
