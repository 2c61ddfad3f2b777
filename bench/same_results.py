#!/usr/bin/env python3
"""Whether two builds of sftbench train alike: ten fixed jobs through both, in turns. Losses and norms of gradients must
be equal to the last bit, and the times of their steps are set side by side.

    bench/same_results.py BEFORE AFTER [--rounds 3] [--only NAME] [--steps N]

--only: the job of this name alone. --steps: so many instead of 4, for times that are to be compared. Weights are random
from a fixed seed. Prints a Markdown table. Exit status 1: results of a job differ.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

FULL, LORA, PROMPT = (f"finetune_{method}_benchmark-v1.0.0" for method in ("full", "lora", "pt"))
USUAL = {"model_name": "smollm2-135m", "number_gpus": 0, "batch_size": 1, "model_max_length": 64, "max_steps": 4,
         "gradient_accumulation_steps": 1, "dataset_id": "news-tokens-16384plus-entries-4096"}

# Of each: experiment, what differs from the usual, options.
JOBS = {
    "full, bfloat16": (FULL, {}, []),
    "full, float32, no checkpointing": (FULL, {"torch_dtype": "float32", "gradient_checkpointing": "false"}, []),
    "full, two micro-batches": (FULL, {"gradient_accumulation_steps": 2, "batch_size": 2}, []),
    "full, 8-bit AdamW": (FULL, {"optim": "adamw_bnb_8bit"}, []),
    "full, Adafactor, reentrant": (FULL, {"optim": "adafactor", "gradient_checkpointing_use_reentrant": "true"}, []),
    "LoRA": (LORA, {}, []),
    "LoRA, packed rows": (LORA, {"model_max_length": 512}, ["--padding", "packed"]),
    "prompt tuning": (PROMPT, {}, []),
    "full, FSDP on two ranks": (FULL, {"batch_size": 2}, ["--ranks", "2"]),
    "LoRA, DDP on two ranks": (LORA, {"batch_size": 2, "distributed_backend": "DDP"}, ["--ranks", "2"]),
}


def measured(program, job, steps):
    experiment, properties, options = job
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "run", "--experiment", experiment, "--weights", "random", *options]
        for name, value in (USUAL | properties | ({"max_steps": steps} if steps else {})).items():
            command += ["--set", f"{name}={value}"]
        run = subprocess.run([*command, "-o", f"{folder}/results"], capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"{' '.join(command)} ended with status {run.returncode}:\n{run.stderr[-2000:]}")
        return json.loads(next(pathlib.Path(folder).glob("results/**/*.json")).read_text())["extra"]


def compare(before, after, job, rounds, steps):
    figures, seconds = {before: [], after: []}, {before: [], after: []}
    for _ in range(rounds):
        for program in (before, after):
            extra = measured(program, job, steps)
            figures[program].append((extra["loss"], extra["grad_norm"]))
            seconds[program] += extra["step_seconds"][1:]
    same = all(figure == figures[before][0] for program in figures for figure in figures[program])
    return same, [statistics.median(seconds[program]) for program in (before, after)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=JOBS)
    parser.add_argument("--steps", type=int)
    given = parser.parse_args()
    before, after = (str(pathlib.Path(path).resolve()) for path in (given.before, given.after))
    print("| job | losses and norms | before ms/step | after ms/step | after/before |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    all_same = True
    for name in [given.only] if given.only else JOBS:
        same, (old, new) = compare(before, after, JOBS[name], given.rounds, given.steps)
        all_same = all_same and same
        print(f"| {name} | {'equal to the bit' if same else 'DIFFER'} | {old * 1e3:.0f} | {new * 1e3:.0f} | {new / old:.3f} |",
              flush=True)
    sys.exit(0 if all_same else 1)


if __name__ == "__main__":
    main()
