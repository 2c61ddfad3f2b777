#!/usr/bin/env python3
"""Checks bench/truth/published.csv: usage: check_published.py [FILE]. Exit status 1 and a line for each fault."""
import csv
import hashlib
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
GPUS = HERE / "../../config/gpus.yaml"
VALUES = {
    "kind": {"time", "memory", "both"}, "packing": {"", "true", "false"}, "died": {"true", "false"},
    "checkpointing": {"true", "false", "unknown"}, "held_out": {"true", "false"},
    "attention": {"flash", "sdpa", "eager", "unknown"},
    "memory_kind": {"", "allocated", "reserved", "nvidia-smi", "unknown"}}
PATTERNS = {
    "precision": r"((bfloat16|float16|float32|fp8|int8)( autocast| pure)?)?",
    "strategy": r"(none|DDP|ZERO[123]|FULL_SHARD|offload)?( .*)?|layers divided among the GPUs",
    "url": r"https://\S+", "date": r"\d{4}(-\d{1,2}){0,2}", "source": r"[a-z0-9-]+", "model": r".+", "method": r".+"}
COUNTS = "gpus nodes parameters rank batch accumulation length padded_to".split()
FIGURES = "tokens_per_second seconds_per_step peak_memory_gib".split()
COLUMNS = {*"network targets optimizer stack inferred gpu".split(), *VALUES, *PATTERNS, *COUNTS, *FIGURES}
# Dense bfloat16 or float16 of boards that config/gpus.yaml does not have, from their makers' data sheets.
OTHER_TFLOPS = {
    "NVIDIA GeForce RTX 3090": 71, "NVIDIA GeForce RTX 4090": 165, "NVIDIA RTX A6000": 155,
    "NVIDIA RTX A5000": 111, "NVIDIA RTX 6000 Ada Generation": 364, "NVIDIA GeForce RTX 4070 Ti SUPER": 88,
    "AMD Instinct MI300X": 1307, "NVIDIA GB200": 2500, "NVIDIA GB300": 2500, "NVIDIA TITAN RTX": 130,
    "NVIDIA H100 96GB HBM2e 500W": 989, "NVIDIA GeForce RTX 5090": 210, "NVIDIA GeForce RTX 5060 Ti": 47,
    "NVIDIA RTX PRO 6000 Blackwell": 500}
ACTIVE = {"mixtral-8x7b-instruct-v0.1": 0.276}  # share of the parameters that a token meets: 2 of 8 experts
FORCED = {"qwen"}  # issue 40 judged by it before it was here; other sources by the hash of their name


def tflops():
    listed = re.findall(r"- name: (\S+).*?peak_tflops: \{.*?float16: (\d+)", GPUS.read_text(), re.S)
    return {**OTHER_TFLOPS, **{name: float(peak) for name, peak in listed}}


def faults_of(row, peaks):
    wrong = [c for c, allowed in VALUES.items() if row[c] not in allowed]
    for column in wrong + [c for c, pattern in PATTERNS.items() if not re.fullmatch(pattern, row[c])]:
        yield f"{column} is '{row[column]}'"
    for column in (*COUNTS, *FIGURES):
        form = r"[1-9]\d*" if column in COUNTS else r"\d+(\.\d+)?(e[+-]?\d+)?"
        if row[column] and (not re.fullmatch(form, row[column]) or float(row[column]) <= 0):
            yield f"{column} is no number above 0: '{row[column]}'"
            return
    timed, sized = row["tokens_per_second"] or row["seconds_per_step"], row["peak_memory_gib"]
    if row["kind"] != ("both" if timed and (sized or row["died"] == "true") else "time" if timed else "memory"):
        yield "kind does not say which figures there are"
    if not timed and not sized and row["died"] == "false":
        yield "no figure"
    if bool(sized) != bool(row["memory_kind"]):
        yield "memory and memory_kind do not go together"
    hashed = int(hashlib.sha256(row["source"].encode()).hexdigest(), 16) % 3 == 0
    if (row["held_out"] == "true") != (hashed or row["source"] in FORCED):
        yield "held_out is not what the name of the source decides"
    if row["tokens_per_second"] and row["parameters"]:
        flops = float(row["tokens_per_second"]) * float(row["parameters"]) * ACTIVE.get(row["model"], 1)
        flops *= 6 if row["method"] == "full" else 4
        peak = peaks.get(row["gpu"], 0) * 1e12 * int(row["gpus"]) * (2 if row["precision"][:3] in ("fp8", "int") else 1)
        if flops > 0.8 * peak:
            yield f"{flops / peak if peak else 0:.2f} of the peak of {row['gpu'] or 'no GPU'} is impossible"


def main():
    rows = list(csv.DictReader(open(sys.argv[1] if len(sys.argv) > 1 else HERE / "published.csv")))
    faults, seen, peaks = [], {}, tflops()
    if not rows or set(rows[0]) != COLUMNS:
        sys.exit("columns: not those of bench/truth/README.md")
    for number, row in enumerate(rows, start=2):
        first = seen.setdefault(tuple(row.values()), number)
        faults += [f"line {number}: the same as line {first}"] * (first != number)
        faults += [f"line {number} ({row['source']}): {fault}" for fault in faults_of(row, peaks)]
    print("\n".join(faults) or f"{len(rows)} rows of {len({row['source'] for row in rows})} sources: no fault")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
