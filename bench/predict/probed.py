#!/usr/bin/env python3
"""`sftbench predict` of CPUs after `sftbench doctor --probe`, against runs on this machine.

  probed.py run SFTBENCH FOLDER     trains all configurations that are not done yet, one after the other
  probed.py score SFTBENCH FOLDER   prints predicted beside measured seconds, and after five others

A score after five others takes five further results of the same model, drawn with a fixed seed, as --evidence.
"""
import json
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FULL, LORA = "finetune_full_benchmark-v1.0.0", "finetune_lora_benchmark-v1.0.0"
STEPS = 3
# Model, experiment, length, batch, gradient checkpointing.
SIZES = ((32, 1, "true"), (64, 2, "false"), (128, 1, "false"), (128, 2, "true"))
CASES = [(model, experiment, *size)
         for size in SIZES for experiment in (FULL, LORA) for model in ("smollm2-135m", "granite-4.0-350m")]


def run(program, folder):
    for number, (model, experiment, length, batch, checkpointing) in enumerate(CASES):
        done = Path(folder) / f"done-{number}"
        if done.exists():
            continue
        settings = {"model_name": model, "number_gpus": 0, "model_max_length": length, "batch_size": batch,
                    "gradient_checkpointing": checkpointing, "torch_dtype": "bfloat16", "max_steps": STEPS,
                    "dataset_id": "news-chars-512-entries-256", "gradient_accumulation_steps": 1,
                    "response_template": "None"}
        command = [program, "run", "--experiment", experiment, "--weights", "random", "--padding", "max_length",
                   "-o", folder, "--no-progress", "--log-level", "error", "--format", "csv"]
        for name, value in settings.items():
            command += ["--set", f"{name}={value}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        done.touch()


def explained(program, result, evidence=None):
    command = [program, "explain", str(result), "--format", "json", "--log-level", "error"]
    if evidence:
        command += ["--evidence", evidence]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def after_five(program, result, others):
    with tempfile.TemporaryDirectory() as folder:
        for other in others:
            target = Path(folder) / other.parent.name
            target.mkdir(exist_ok=True)
            shutil.copy(other, target)
        interval = explained(program, result, folder)["step_interval"]
    return math.sqrt(interval["low"] * interval["high"]), interval["low"], interval["high"]


def summary(name, errors):
    sizes = sorted(abs(e) for e in errors)
    p90 = sizes[min(len(sizes) - 1, math.ceil(0.9 * len(sizes)) - 1)]
    print(f"{name}: {len(errors)} rows, median {100 * statistics.median(sizes):.1f} %, p90 {100 * p90:.1f} %, "
          f"bias {100 * statistics.median(errors):+.1f} %")


def score(program, folder):
    results = sorted(Path(folder).glob("*/*.json"))
    inputs = {result: json.loads(result.read_text())["inputs"] for result in results}
    generator = random.Random(42)
    print("| model | method | batch x length | recomputed | measured s | predicted s | error | after five | error |")
    print("|---|---|--:|---|--:|--:|--:|--:|--:|")
    before, after, covered = [], [], 0
    for result in results:
        step = explained(program, result)["terms"][0]
        alike = [other for other in results
                 if other != result and inputs[other]["model_name"] == inputs[result]["model_name"]]
        sharpened, low, high = after_five(program, result, generator.sample(alike, min(5, len(alike))))
        before.append(step["predicted"] / step["measured"] - 1)
        after.append(sharpened / step["measured"] - 1)
        covered += low <= step["measured"] <= high
        i = inputs[result]
        print(f"| {i['model_name']} | {'full' if 'full' in result.parent.name else 'lora'} | "
              f"{i['batch_size']} x {i['model_max_length']} | {str(i['gradient_checkpointing']).lower()} | "
              f"{step['measured']:.3f} | {step['predicted']:.3f} | {100 * before[-1]:+.1f} % | {sharpened:.3f} | "
              f"{100 * after[-1]:+.1f} % |")
    print()
    summary("after the probe", before)
    summary("after five others of the model", after)
    print(f"their intervals hold {covered} of {len(results)}")


def main():
    action, program, folder = sys.argv[1:4]
    (run if action == "run" else score)(program, folder)


if __name__ == "__main__":
    main()
