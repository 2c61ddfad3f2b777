#!/usr/bin/env python3
"""Turns llm-foundry's benchmark tables (Markdown) into CSV that `sftbench import --as csv` takes.

usage: llm_foundry.py README.md > llm-foundry.csv

README.md is scripts/train/benchmarking/README.md of mosaicml/llm-foundry (Apache-2.0). Rows of more than 32 GPUs are
left out, which no experiment has, and rows of another precision than bfloat16.
"""
import csv
import sys

GPUS = {"h100_80gb": "NVIDIA-H100-80GB-HBM3", "a100_80gb": "NVIDIA-A100-SXM4-80GB", "a100_40gb": "NVIDIA-A100-SXM4-40GB"}
COLUMNS = ["model", "length", "gpus", "nodes", "gpu", "batch", "accumulation", "rate", "strategy", "checkpointing"]


def rows(lines):
    names = None
    for line in lines:
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if "SeqLen (T)" in cells:
            names = cells
        elif names and len(cells) == len(names) and cells[1].isdigit():
            yield dict(zip(names, cells))


def main():
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    for row in rows(open(sys.argv[1])):
        gpus = int(row["# GPUs"])
        if gpus > 32 or row["Precision"] != "amp_bf16" or row["GPU"] not in GPUS:
            continue
        micro_batch, accumulation = int(row["MicroBatchSize"]), int(row["GradAccum"])
        out.writerow(["mpt-" + row["Model"], row["SeqLen (T)"], gpus, max(1, gpus // 8), GPUS[row["GPU"]],
                      micro_batch * gpus, accumulation, row["Throughput (T/s)"], row["Sharding Strategy"],
                      row["Activation Checkpointing"].lower()])


main()
