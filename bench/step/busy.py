#!/usr/bin/env python3
"""Step times beside other programs that compute: what the way costs in which threads wait for one another.

    bench/step/busy.py SFTBENCH [--others 0 1 2 6] [--steps 4] [--rounds 2]

SmolLM2-135M, random weights, 1 x 512, bfloat16, no checkpointing, as many threads as cores. Runs take turns: as the program
has it, as libgomp has it (300,000 looks before a thread sleeps), and with threads that sleep at once. The first step of
each process is left out.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

WAYS = {"program's own": {}, "libgomp's own": {"GOMP_SPINCOUNT": "300000"}, "sleep at once": {"OMP_WAIT_POLICY": "passive"}}
SETTINGS = {"model_name": "smollm2-135m", "model_max_length": 512, "batch_size": 1, "number_gpus": 0,
            "gradient_accumulation_steps": 1, "gradient_checkpointing": "false", "torch_dtype": "bfloat16",
            "dataset_id": "news-tokens-16384plus-entries-4096"}


def step_seconds(program, steps, variables):
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "run", "--experiment", "finetune_full_benchmark-v1.0.0", "--weights", "random",
                   "--no-progress", "--format", "json", "-o", folder, "--set", f"max_steps={steps}"]
        for name, value in SETTINGS.items():
            command += ["--set", f"{name}={value}"]
        unset = {name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
        done = subprocess.run(command, capture_output=True, text=True, env=unset | variables)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return json.loads(done.stdout)["extra"]["step_seconds"][1:]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--others", type=int, nargs="+", default=[0, 1, 2, 6])
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    print("| other programs |", " | ".join(WAYS), "|\n| ---: |" + " ---: |" * len(WAYS))
    for others in options.others:
        hogs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(others)]
        try:
            seconds = {way: [] for way in WAYS}
            for _ in range(options.rounds):
                for way, variables in WAYS.items():
                    seconds[way] += step_seconds(str(options.program.resolve()), options.steps, variables)
        finally:
            for hog in hogs:
                hog.kill()
        print(f"| {others} |", " | ".join(f"{statistics.median(times):.2f} s" for times in seconds.values()), "|", flush=True)


if __name__ == "__main__":
    main()
