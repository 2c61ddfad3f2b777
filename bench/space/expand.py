#!/usr/bin/env python3
"""Expands, validates and prints spaces of a million entities: wall time and peak memory of `sftbench expand`.

usage: bench/space/expand.py SFTBENCH [--runs N]   (the executable of a release build)

Each space is run N times, the spaces in turn; the table has the least and the greatest wall time, which includes the
start of the program, and the greatest peak of resident memory.
"""

import argparse
import os
import subprocess
import tempfile
import time

HEAD = """sampleStoreIdentifier: bench
experiments: [{experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer}]
entitySpace:
"""

MODELS = "{values: [smollm2-135m, llama3.1-8b, granite-3.1-2b, mixtral-8x7b-instruct-v0.1]}"
GPU_MODELS = "{values: [NVIDIA-A100-SXM4-80GB, NVIDIA-H100-80GB-HBM3]}"

SPACES = {
    "lists and ranges, 43 % invalid": {
        "model_name": MODELS, "gpu_model": GPU_MODELS, "number_gpus": "{values: [0, 1, 2, 4, 8]}",
        "model_max_length": "{domainRange: [256, 25856], interval: 256}",
        "batch_size": "{domainRange: [1, 126], interval: 1}", "torch_dtype": "{values: [bfloat16, float32]}"},
    "a range turns fastest, all valid": {
        "model_name": MODELS, "gpu_model": GPU_MODELS, "number_gpus": "{values: [0]}",
        "model_max_length": "{domainRange: [1, 126], interval: 1}",
        "batch_size": "{domainRange: [1, 1001], interval: 1}"},
    "fractions turn fastest, all valid": {
        "model_name": MODELS, "gpu_model": GPU_MODELS, "number_gpus": "{values: [0]}", "batch_size": "{values: [1]}",
        "model_max_length": "{domainRange: [1, 126], interval: 1}",
        "stop_after_seconds": "{domainRange: [1.0, 1001], interval: 1}"},
    "the model turns fastest, rules of experts": {
        "batch_size": "{domainRange: [1, 501], interval: 1}",
        "model_max_length": "{domainRange: [1, 101], interval: 1}", "number_gpus": "{values: [4]}",
        "gpu_model": "{values: [NVIDIA-H100-80GB-HBM3]}", "fms_hf_tuning_version": "{values: [3.1.0]}",
        "fast_moe": "{values: [0, 1, 2, 3, 4]}", "model_name": MODELS},
}


def run(command):
    """Wall seconds, peak KiB and lines of one run."""
    with tempfile.TemporaryFile() as messages:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=messages)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        if status != 0:
            messages.seek(0)
            raise SystemExit(f"{' '.join(command)}: {messages.read().decode()}")
    return wall, usage.ru_maxrss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("sftbench")
    parser.add_argument("--runs", type=int, default=5)
    arguments = parser.parse_args()
    figures = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, dimensions in SPACES.items():
            with open(f"{folder}/{len(figures)}.yaml", "w") as file:
                file.write(HEAD + "".join(f"  - {{identifier: {property}, propertyDomain: {domain}}}\n"
                                          for property, domain in dimensions.items()))
            for format in ("jsonl", "csv"):
                figures[name, format] = []
            figures[name, "file"] = file.name
        for _ in range(arguments.runs):
            for name in SPACES:
                for format in ("jsonl", "csv"):
                    command = [arguments.sftbench, "expand", figures[name, "file"], "--format", format]
                    figures[name, format].append(run(command))
    print("| a million entities | format | wall s | peak MiB |\n| --- | --- | --- | ---: |")
    for name in SPACES:
        for format in ("jsonl", "csv"):
            walls = [wall for wall, _ in figures[name, format]]
            peak = max(peak for _, peak in figures[name, format])
            print(f"| {name} | {format} | {min(walls):.2f}-{max(walls):.2f} | {peak / 1024:.1f} |")


if __name__ == "__main__":
    main()
