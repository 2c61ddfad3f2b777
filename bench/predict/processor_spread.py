#!/usr/bin/env python3
"""The spread of steps on processors: kProcessorTime of src/decide/advise/uncertainty.cpp.

  processor_spread.py TABLE...   tables that `probed.py score` has printed, with their rows of all measurements

Maximizes the likelihood as fit_spread of bench/truth/fit_residuals.cpp does. Then, for each table, it draws five rows of a
row's model at random, eight times, and prints how many deviations hold nine of ten rows. What ships is a normal
distribution's own, 1.64, which is more than what two tables of 2026-11-26 need. Needs numpy.
"""
import math
import random
import sys

import numpy as np

FACTORS = (0.1, 0.25, 0.5, 0.8, 1.25, 2, 4, 10)
KNOWN, DRAWS = 5, 8


def rows_of(path):
    rows = []
    with open(path) as file:
        cells = [[cell.strip() for cell in line.split("|")] for line in file if line.startswith("|")]
    for row in cells:
        if not row[3].isdigit():
            continue  # the table's head
        batch, length = map(int, row[4].split(" x "))
        rows.append({"model": row[1], "method": row[2], "checkpointing": row[5],
                     "place": np.log2([int(row[3]), batch, length]), "log_ratio": math.log(float(row[6]) / float(row[7]))})
    return rows


def covariance(a, b, spread):
    if a["model"] != b["model"]:
        return spread["offset"]
    near = spread["near"] * math.exp(-np.sum((a["place"] - b["place"]) ** 2) / (2 * spread["distance"] ** 2))
    near *= 0.5 ** ((a["method"] != b["method"]) + (a["checkpointing"] != b["checkpointing"]))
    return spread["offset"] + spread["model"] + near


def factor(rows, spread):
    shared = [[covariance(a, b, spread) for b in rows] for a in rows]
    lower = np.linalg.cholesky(np.array(shared) + spread["noise"] * np.eye(len(rows)))
    return lower, np.linalg.solve(lower, [row["log_ratio"] for row in rows])


def log_likelihood(rows, spread):
    lower, whitened = factor(rows, spread)
    return -0.5 * whitened @ whitened - np.log(np.diag(lower)).sum()


def likeliest(rows):
    spread = {"offset": 2e-3, "model": 2e-3, "near": 1e-3, "distance": 2, "noise": 2e-4}
    best = log_likelihood(rows, spread)
    for _ in range(4):
        for name in spread:
            before = chosen = spread[name]
            for scale in FACTORS:
                spread[name] = min(16, max(1e-6, before * scale))
                likelihood = log_likelihood(rows, spread)
                if likelihood > best:
                    best, chosen = likelihood, spread[name]
            spread[name] = chosen
    return spread


def deviation_of(row, known, spread):
    lower, whitened = factor(known, spread)
    shared = np.linalg.solve(lower, [covariance(other, row, spread) for other in known])
    alone = spread["offset"] + spread["model"] + spread["near"] + spread["noise"]
    variance = max(alone - shared @ shared, spread["noise"])
    return abs(row["log_ratio"] - shared @ whitened) / math.sqrt(variance)


def widening(rows, spread):
    generator = random.Random(1)
    deviations = []
    for row in rows:
        others = [other for other in rows if other is not row and other["model"] == row["model"]]
        deviations += [deviation_of(row, generator.sample(others, KNOWN), spread) for _ in range(DRAWS)]
    deviations.sort()
    return deviations[min(len(deviations), math.ceil(0.9 * (len(deviations) + 1))) - 1]


def main():
    tables = [rows_of(path) for path in sys.argv[1:]]
    spread = likeliest([row for table in tables for row in table])
    print({name: float(f"{value:.3g}") for name, value in spread.items()})
    print("widening:", ", ".join(f"{widening(table, spread):.2f}" for table in tables))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main()
