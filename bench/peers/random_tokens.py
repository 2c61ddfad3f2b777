#!/usr/bin/env python3
"""Entries of random tokens that the engine and a peer both train on: JSON lines with input_ids and labels.

  bench/peers/random_tokens.py FILE [--entries 512] [--length 4096] [--natural] [--vocabulary 49152]

--natural draws lengths as instruction data has them (log-normal, median a quarter of LENGTH) up to LENGTH.
"""
import argparse
import json
import math
import random


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--entries", type=int, default=512)
    parser.add_argument("--length", type=int, default=4096)
    parser.add_argument("--natural", action="store_true")
    parser.add_argument("--vocabulary", type=int, default=49152)
    options = parser.parse_args()
    draw = random.Random(42)
    with open(options.file, "w") as file:
        for _ in range(options.entries):
            length = options.length
            if options.natural:
                length = min(options.length, max(8, round(draw.lognormvariate(math.log(options.length / 4), 0.8))))
            ids = draw.choices(range(4, options.vocabulary), k=length)
            file.write(json.dumps({"input_ids": ids, "labels": ids}) + "\n")


if __name__ == "__main__":
    main()
