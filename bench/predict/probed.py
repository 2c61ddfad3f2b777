#!/usr/bin/env python3
"""`sftbench predict` of CPUs after `sftbench doctor --probe`, against runs on this machine.

  probed.py run SFTBENCH FOLDER [SECONDS]   trains what is not done yet, one after the other; begins none behind SECONDS
  probed.py score SFTBENCH FOLDER...        prints predicted beside measured seconds and bytes

The machine has to be idle: a run whose threads waited for a processor is thrown away and done again. With several
folders, a configuration's measured time is the median of theirs. A score after five others takes five further results
of the same model, each of a folder, drawn with a fixed seed, as --evidence.
"""
import json
import math
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FULL, LORA = "finetune_full_benchmark-v1.0.0", "finetune_lora_benchmark-v1.0.0"
STEPS = 5
MOST_WAITING = 0.05  # of the threads' time, on one rank: several wait for one another's exchanges
# Length, batch, gradient checkpointing, ranks.
SIZES = ((128, 1, "false", 1), (32, 1, "true", 1), (128, 2, "false", 2), (64, 2, "false", 1), (256, 1, "true", 1),
         (64, 4, "true", 2), (128, 2, "true", 1), (32, 4, "false", 1), (256, 2, "false", 2), (512, 1, "false", 1),
         (64, 1, "true", 1), (32, 2, "false", 2), (256, 2, "true", 1), (128, 4, "false", 1), (128, 4, "true", 2))
# Model, experiment and size: 60.
CASES = [(model, experiment, *size)
         for size in SIZES for experiment in (FULL, LORA) for model in ("smollm2-135m", "granite-4.0-350m")]


def command_of(program, folder, model, experiment, length, batch, checkpointing, ranks):
    settings = {"model_name": model, "number_gpus": 0, "model_max_length": length, "batch_size": batch,
                "gradient_checkpointing": checkpointing, "torch_dtype": "bfloat16", "max_steps": STEPS,
                "dataset_id": "news-chars-512-entries-256", "gradient_accumulation_steps": 1,
                "response_template": "None"}
    command = [program, "run", "--experiment", experiment, "--weights", "random", "--padding", "max_length",
               "-o", folder, "--no-progress", "--log-level", "error", "--format", "json"]
    if ranks > 1:
        command += ["--ranks", str(ranks), "--threads", "1"]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    return command


def run(program, folder, seconds):
    Path(folder).mkdir(parents=True, exist_ok=True)
    begin, tries = time.monotonic(), {}
    while time.monotonic() - begin < seconds:
        left = [n for n in range(len(CASES)) if not (Path(folder) / f"done-{n}").exists()]
        if not left:
            break
        number = min(left, key=lambda n: (tries.get(n, 0), n))
        tries[number] = tries.get(number, 0) + 1
        with tempfile.TemporaryDirectory() as place:
            out = subprocess.run(command_of(program, place, *CASES[number]), check=True, stdout=subprocess.PIPE, text=True)
            waited = json.loads(out.stdout)["extra"]["run_queue_wait_share"]
            if waited > MOST_WAITING and CASES[number][-1] == 1:
                print(f"{number}: threads waited {100 * waited:.0f} % of their time for a processor: once more")
                continue
            (result,) = Path(place).glob("*/*.json")
            target = Path(folder) / result.parent.name
            target.mkdir(exist_ok=True)
            shutil.copy(result, target)
        (Path(folder) / f"done-{number}").touch()
    print(f"{sum((Path(folder) / f'done-{n}').exists() for n in range(len(CASES)))} of {len(CASES)} are done")


def explained(program, result, evidence=None):
    command = [program, "explain", str(result), "--format", "json", "--log-level", "error"]
    if evidence:
        command += ["--evidence", evidence]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def seconds_of(result):
    return statistics.median(json.loads(result.read_text())["extra"]["step_seconds"][1:])


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


def measurements_of(folders):
    """Of each configuration, the results that the folders have of it: [[Path, ...], ...]."""
    by_configuration = {}
    for folder in folders:
        for result in sorted(Path(folder).glob("*/*.json")):
            by_configuration.setdefault(result.relative_to(folder), []).append(result)
    return [results for _, results in sorted(by_configuration.items())]


def score(program, folders):
    measurements = measurements_of(folders)
    inputs = [json.loads(results[0].read_text())["inputs"] for results in measurements]
    generator = random.Random(42)
    print("| model | method | ranks | batch x length | recomputed | measured s | predicted s | error | after five | error "
          "| MiB | predicted | error |")
    print("|---|---|--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    before, after, memory, covered = {}, [], [], 0
    repeats = [seconds_of(result) / statistics.median(map(seconds_of, results)) - 1
               for results in measurements for result in results]
    for results, i in zip(measurements, inputs):
        result, measured = results[0], statistics.median(map(seconds_of, results))
        terms = {term["term"]: term for term in explained(program, result)["terms"]}
        predicted = terms["step"]["predicted"]
        alike = [generator.choice(others) for others, other in zip(measurements, inputs)
                 if others is not results and other["model_name"] == i["model_name"]]
        sharpened, low, high = after_five(program, result, generator.sample(alike, min(5, len(alike))))
        ranks = i.get("cpu_ranks", 1)
        before.setdefault(ranks, []).append(predicted / measured - 1)
        after.append(sharpened / measured - 1)
        covered += low <= measured <= high
        tensors = terms["memory"]
        memory.append(tensors["predicted"] / tensors["measured"] - 1)
        print(f"| {i['model_name']} | {'full' if 'full' in result.parent.name else 'lora'} | {ranks} | "
              f"{i['batch_size']} x {i['model_max_length']} | {str(i['gradient_checkpointing']).lower()} | "
              f"{measured:.3f} | {predicted:.3f} | {100 * (predicted / measured - 1):+.1f} % | {sharpened:.3f} | "
              f"{100 * after[-1]:+.1f} % | {1024 * tensors['measured']:.0f} | {1024 * tensors['predicted']:.0f} | "
              f"{100 * memory[-1]:+.1f} % |")
    print()
    for ranks in sorted(before):
        summary(f"time after the probe, {ranks} ranks", before[ranks])
    summary("time after the probe", sum(before.values(), []))
    summary("time after five others of the model", after)
    summary("memory", memory)
    print(f"intervals after five others hold {covered} of {len(measurements)}")
    if len(folders) > 1:
        summary("single measurements from the medians", repeats)


def main():
    action, program, *rest = sys.argv[1:]
    if action == "run":
        run(program, rest[0], float(rest[1]) if len(rest) > 1 else math.inf)
    else:
        score(program, rest)


if __name__ == "__main__":
    main()
