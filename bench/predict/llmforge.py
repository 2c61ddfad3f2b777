#!/usr/bin/env python3
"""The tables of Anyscale's "Tuning Configs for Cost or Performance" (LLMForge, January 2024) beside this program:

usage: llmforge.py SFTBENCH [--run]

12 configurations of LoRA on a node of 8 A100-80: tokens per hour, MFU by the page's formula (6 FLOPs for each parameter and
token) and dollars per million tokens at $40.77 per hour. Without --run they are predicted, of transformers with DeepSpeed's
stage 3. With --run, which needs that node, each is measured for 8 steps of rows of full length with random weights, and
forward and backward seconds stand beside it. The page's dollars do not follow from its tokens: they stand in other rows.
"""
import argparse
import json
import subprocess
import tempfile

HOUR, DEVICES, PEAK, DOLLARS = 3600, 8, 312e12, 40.77
# model, tokens of a row, rows of a device, million tokens an hour, MFU
ROWS = [("llama2-7b", 512, 64, 101.47, 0.47), ("llama2-7b", 1024, 32, 103.7, 0.48), ("llama2-7b", 2048, 8, 99.75, 0.47),
        ("llama2-7b", 4096, 4, 102.58, 0.48), ("llama2-70b", 512, 16, 11.23, 0.53), ("llama2-70b", 1024, 8, 9.65, 0.45),
        ("llama2-70b", 2048, 4, 8.58, 0.40), ("llama2-70b", 4096, 2, 13.40, 0.63),
        ("mixtral-8x7b-instruct-v0.1", 512, 64, 59.73, 0.56), ("mixtral-8x7b-instruct-v0.1", 1024, 32, 57.20, 0.53),
        ("mixtral-8x7b-instruct-v0.1", 2048, 16, 56.85, 0.53), ("mixtral-8x7b-instruct-v0.1", 4096, 8, 55.84, 0.52)]
PARAMETERS = {"llama2-7b": 6.74e9, "llama2-70b": 69.0e9, "mixtral-8x7b-instruct-v0.1": 12.9e9}  # that a token meets


def settings(model, length, batch):
    return [f"--set={name}={value}" for name, value in {
        "model_name": model, "number_gpus": DEVICES, "gpu_model": "NVIDIA-A100-SXM4-80GB", "model_max_length": length,
        "batch_size": batch * DEVICES, "bf16": "true", "target_modules": "all-linear", "r": 8,
        "gradient_accumulation_steps": 1}.items()]


def predicted(program, row):
    command = [program, "predict", "--experiment", "lora", *settings(*row[:3]), "--stack", "transformers", "--format", "json"]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout)
    return found["padded_tokens_per_second"], None, None


def measured(program, row, folder):
    command = [program, "run", "--experiment", "lora", *settings(*row[:3]), "--weights", "random", "--set=max_steps=8",
               "--set=auto_stop_method=None", "--padding", "max_length", "--output", folder, "--format", "json", "--no-progress"]
    extra = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout)["extra"]
    phases = extra.get("phase_seconds", {})
    return extra["token_rates"]["padded_tokens_per_second"], phases.get("forward"), phases.get("backward")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--run", action="store_true")
    options = parser.parse_args()
    print("| model | length | rows | MT/h | page | MFU | page | $/MT | fwd_time | bwd_time |\n" + "|---" * 10 + "|")
    with tempfile.TemporaryDirectory() as folder:
        for row in ROWS:
            model, length, batch, page, page_mfu = row
            tokens, forward, backward = measured(options.program, row, folder) if options.run else predicted(options.program, row)
            hourly = tokens * HOUR / 1e6
            mfu = 6 * PARAMETERS[model] * tokens / (DEVICES * PEAK)
            seconds = " | ".join("" if value is None else f"{value:.3f}" for value in (forward, backward))
            print(f"| {model} | {length} | {batch} | {hourly:.2f} | {page} | {mfu:.2f} | {page_mfu} | {DOLLARS / hourly:.2f} | {seconds} |")


if __name__ == "__main__":
    main()
