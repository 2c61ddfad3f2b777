#!/usr/bin/env python3
"""Time and peak memory of making and counting the large named datasets, beside the same work in Python.

    bench/data/compare.py SFTBENCH [--python PYTHON] [--tokenizer FOLDER] [--rounds 3]

SFTBENCH is the executable; PYTHON one that has pandas, pyarrow, Pillow and xxhash (without it, our side alone).
Each figure is the median over rounds of a process of its own, from its start to its end, file on disk included.
The Python side makes the same entries as ado's generators do: whole in memory, then json.dumps line by line, or
pandas.to_parquet. (Tokenizers are compared in bench/tokenizer.) Run it on a quiet machine.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SEED_TEXT = ROOT / "datasets" / "news_seed.txt"
TEXT = "news-tokens-16384plus-entries-4096"
VISION = "vision-384x384-16384plus-entries-4096"


def entries(tokens_input, tokens_output, count=4096):
    words, at = SEED_TEXT.read_text().split(), 0

    def cut(tokens):
        nonlocal at
        length, pieces = int(tokens * 0.75 + 0.5), []
        while length > 0:
            taken = min(length, len(words) - at)
            pieces += words[at:at + taken]
            at, length = (at + taken) % len(words), length - taken
        return " ".join(pieces)

    for _ in range(count):
        yield cut(tokens_input), cut(tokens_output)


def python_text(output):
    lines = [{"output": f"### Input:\n {question} \n\n### Response: {answer}"} for question, answer in entries(10, 18240)]
    with open(output, "w") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")


def python_vision(output):
    import pandas
    sys.path.insert(0, str(ROOT / "tests" / "reference"))
    import vision
    image = vision.picture(384, 384)
    chats = [[{"role": "user", "content": [{"type": "text", "text": question, "index": None}, {"type": "image", "index": i}]},
              {"role": "assistant", "content": [{"type": "text", "text": answer, "index": None}]}]
             for i, (question, answer) in enumerate(entries(50, 18200))]
    pandas.DataFrame({"images": [{"bytes": image, "path": None}] * len(chats), "output": chats}).to_parquet(output)


def measure(command):
    """Wall seconds, processor seconds, peak MiB of a process."""
    begin = time.monotonic()
    pid = os.posix_spawn(command[0], command, os.environ,
                         file_actions=[(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)])
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        raise SystemExit(f"{' '.join(command)}: status {status}")
    return time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def report(name, command, rounds, prepare=lambda: None):
    samples = []
    for _ in range(rounds):
        prepare()
        samples.append(measure(command))
    wall, cpu, peak = (statistics.median(column) for column in zip(*samples))
    spread = f"{min(s[0] for s in samples):.2f}-{max(s[0] for s in samples):.2f}"
    print(f"| {name} | {wall:.2f} ({spread}) | {cpu:.2f} | {peak:.0f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sftbench")
    parser.add_argument("--python")
    parser.add_argument("--tokenizer", default=str(ROOT / "datasets" / "tokenizer"))
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    ours = os.path.abspath(options.sftbench)
    with tempfile.TemporaryDirectory(dir=ROOT / "build") as folder:
        text, vision, cache = (os.path.join(folder, name) for name in ("text.jsonl", "vision.parquet", "cache"))

        def forget():
            for file in pathlib.Path(cache).glob("*"):
                file.unlink()

        def python(*arguments):
            return [options.python, __file__, "--work", *arguments]

        count = [ours, "dataset", "count", "--cache", cache, "--tokenizer", options.tokenizer]
        print("| work | wall s (range) | processor s | peak MiB |\n| --- | ---: | ---: | ---: |")
        report("text, sftbench", [ours, "dataset", "text", TEXT, "-o", text], options.rounds)
        report("vision, sftbench", [ours, "dataset", "vision", VISION, "-o", vision], options.rounds)
        report("count text, sftbench", [*count, text], options.rounds, forget)
        report("count text again, sftbench", [*count, text], options.rounds)
        report("count vision, sftbench", [*count, vision], options.rounds, forget)
        if options.python:
            report("text, Python", python("text", text), options.rounds)
            report("vision, Python", python("vision", vision), options.rounds)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--work"]:
        {"text": python_text, "vision": python_vision}[sys.argv[2]](*sys.argv[3:])
    else:
        main()
