#!/usr/bin/env python3
"""Tokenizer throughput beside Hugging Face `tokenizers`: one thread each, one interleaved run, same texts.

  cmake --preset bench && cmake --build --preset bench --target tokenizer_bench

  compare.py build/bench/bin/tokenizer_bench TOKENIZER.json [--dataset ID] [--entries N] [--pairs N]

Each pair encodes all texts with a fresh tokenizer on both sides. Hugging Face is given the faster of encode (one text
at a time) and encode_batch. Times are processor seconds on both sides. Reported: medians over the pairs, and whether the token counts are the same.
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
from tokenizers import Tokenizer  # noqa: E402  (reads the environment)


def cpu_model():
    names = [line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.machine()


def hugging_face(path, texts):
    """Seconds to load, seconds to encode (the faster way), tokens."""
    seconds = []
    for batch in (False, True):
        begin = time.process_time()
        tokenizer = Tokenizer.from_file(path)
        load = time.process_time() - begin
        begin = time.process_time()
        if batch:
            tokens = sum(len(e.ids) for e in tokenizer.encode_batch(texts))
        else:
            tokens = sum(len(tokenizer.encode(text).ids) for text in texts)
        seconds.append(time.process_time() - begin)
    return load, min(seconds), tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("tokenizer")
    parser.add_argument("--dataset", default="news-tokens-16384plus-entries-4096")
    parser.add_argument("--entries", type=int, default=64)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "texts.jsonl")
        subprocess.run([options.bench, "texts", options.dataset, str(options.entries), path], check=True)
        texts = [json.loads(line)["output"] for line in open(path, encoding="utf-8")]
        ours, theirs = [], []
        for _ in range(options.pairs):
            done = subprocess.run([options.bench, "encode", options.tokenizer, path], check=True, capture_output=True)
            ours.append(json.loads(done.stdout))
            theirs.append(hugging_face(options.tokenizer, texts))
    megabytes = ours[0]["bytes"] / 1e6
    speed = megabytes / statistics.median(run["encode_s"] for run in ours)
    reference = megabytes / statistics.median(run[1] for run in theirs)
    ratios = [run[1] / own["encode_s"] for run, own in zip(theirs, ours)]
    print(json.dumps({
        "tokenizer": options.tokenizer, "dataset": options.dataset, "entries": options.entries,
        "megabytes": round(megabytes, 2), "pairs": options.pairs, "same_token_count": ours[0]["tokens"] == theirs[0][2],
        "sftbench_mb_per_s": round(speed, 1), "hugging_face_mb_per_s": round(reference, 2),
        "ratio": round(statistics.median(ratios), 1), "ratio_range": [round(min(ratios), 1), round(max(ratios), 1)],
        "sftbench_load_s": round(statistics.median(run["load_s"] for run in ours), 3),
        "hugging_face_load_s": round(statistics.median(run[0] for run in theirs), 3),
        "machine": cpu_model()}))


if __name__ == "__main__":
    main()
