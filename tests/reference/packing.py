#!/usr/bin/env python3
"""Golden packs: which entries trl puts together (packing_strategy "bfd", 1000 entries at a time as Dataset.map does).

Writes data/packing.json: per case the lengths of the entries, the capacity, and the packs as entry numbers.
Made with trl 1.16, datasets 5.2:  python packing.py
"""
import json
import random
from pathlib import Path

from datasets import Dataset
from trl import pack_dataset

# seed, entries, shortest, longest, capacity
CASES = [(1, 1, 3, 3, 8), (2, 9, 1, 8, 8), (3, 40, 1, 40, 64), (4, 200, 5, 128, 128), (5, 150, 64, 64, 200),
         (6, 1003, 1, 30, 100), (7, 60, 0, 9, 16)]


def packs_of(lengths, capacity):
    # Every token of an entry is the entry's number: what a pack holds can be read off it.
    dataset = Dataset.from_dict({"input_ids": [[number] * length for number, length in enumerate(lengths)]})
    packed = pack_dataset(dataset, seq_length=capacity, strategy="bfd")
    packs = []
    for ids, seq_lengths in zip(packed["input_ids"], packed["seq_lengths"]):
        begin, pack = 0, []
        for length in seq_lengths:
            assert len(set(ids[begin:begin + length])) == 1
            pack.append(ids[begin])
            begin += length
        packs.append(pack)
    return packs


def main():
    golden = []
    for seed, entries, shortest, longest, capacity in CASES:
        rng = random.Random(seed)
        lengths = [rng.randint(shortest, longest) for _ in range(entries)]
        golden.append({"capacity": capacity, "lengths": lengths, "packs": packs_of(lengths, capacity)})
    path = Path(__file__).parent / "data" / "packing.json"
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
