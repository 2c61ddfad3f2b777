#!/usr/bin/env python3
"""What numpy's default generator draws, which the package datasets splits and mixes with. Writes data/numpy_random.json.

Made with numpy 2.4 and datasets 4:  python numpy_random.py
"""
import json
from pathlib import Path

import datasets
import numpy

SEEDS = [0, 1, 42, 66, 2**32 - 1, 2**32, 2**63 + 11, 2**64 - 1]


def split(entries, share, seed, trained=None):
    parts = datasets.Dataset.from_dict({"i": range(entries)}).train_test_split(
        test_size=share or None, train_size=trained, seed=seed)
    return {"entries": entries, "share": share, "seed": seed, "trained": -1 if trained is None else trained,
            "train": parts["train"]["i"][:], "test": parts["test"]["i"][:] if share else []}


def mix(lengths, probabilities, strategy, seed):
    begin, parts = 0, []
    for length in lengths:
        parts.append(datasets.Dataset.from_dict({"i": range(begin, begin + length)}))
        begin += length
    mixed = datasets.interleave_datasets(parts, probabilities=probabilities, seed=seed, stopping_strategy=strategy)
    return {"lengths": lengths, "probabilities": probabilities, "strategy": strategy, "seed": seed, "entries": mixed["i"][:]}


def main():
    golden = {
        "made_with": {"numpy": numpy.__version__, "datasets": datasets.__version__},
        "doubles": [{"seed": seed, "values": numpy.random.default_rng(seed).random(5).tolist()} for seed in SEEDS],
        "permutations": [{"seed": seed, "values": numpy.random.default_rng(seed).permutation(n).tolist()}
                         for seed in SEEDS for n in (1, 2, 17, 100)],
        "splits": [split(*case) for case in ((26, 0.25, 42), (26, 0.2, 0), (3, 0.1, 7), (101, 0.5, 66), (10, 0.3, 42),
                                              (26, 5, 42), (101, 100, 0), (10, 0.3, 42, 0.4), (11, 0, 7, 0.6),
                                              (13, 0.1, 66, 0.45))],
        "mixtures": [mix(lengths, probabilities, strategy, seed)
                     for lengths, probabilities in (([5, 9], [0.3, 0.7]), ([7, 2, 30], [0.5, 0.1, 0.4]),
                                                    ([1, 1], [0.5, 0.5]), ([600, 700, 20], [0.4, 0.58, 0.02]))
                     for strategy in ("first_exhausted", "all_exhausted", "all_exhausted_without_replacement")
                     for seed in (42, 66)],
    }
    path = Path(__file__).parent / "data" / "numpy_random.json"
    path.write_text(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
