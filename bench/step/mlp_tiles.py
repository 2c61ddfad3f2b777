#!/usr/bin/env python3
"""What tiles of the MLPs cost and save on this CPU: runs of one job with and without, in turn.

    bench/step/mlp_tiles.py SFTBENCH [--length 16384] [--tiles 1 16] [--rounds 2]

Four layers of 256 values with MLPs of 4096, one row, float32, two threads, random weights. Each run is a process of its
own. The first of its three steps warms up and is left out. All losses must agree.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

LOSS_TOLERANCE = 1e-5


def output_of(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def job_of(program, length):
    settings = {"model_name": "smollm2-135m", "number_gpus": 0, "batch_size": 1, "model_max_length": length,
                "max_steps": 3, "gradient_accumulation_steps": 1, "torch_dtype": "float32"}
    command = [program, "run", "--dry-run", "--experiment", "finetune_full_benchmark-v1.0.0", "--weights", "random",
               "--threads", "2", "--padding", "max_length"]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    job = json.loads(output_of(command))
    job["model"]["hf_config"].update(hidden_size=256, intermediate_size=4096, num_hidden_layers=4, vocab_size=49152,
                                     num_attention_heads=4, num_key_value_heads=4, max_position_embeddings=length)
    job["model"]["hf_config"].pop("head_dim", None)
    return job


def run(program, job, checkpointing, tiles, folder):
    job["activations"].update(gradient_checkpointing=checkpointing, mlp_tiles=tiles)
    path = Path(folder) / "job.json"
    path.write_text(json.dumps(job))
    results = tempfile.mkdtemp(dir=folder)
    output_of([program, "run", "--job", str(path), "-o", results, "--no-progress"])
    extra = json.loads(next(Path(results).rglob("*.json")).read_text())["extra"]
    return extra["step_seconds"][1:], max(extra["memory_bytes"]["host_peak_rss"]), extra["loss"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--length", type=int, default=16384)
    parser.add_argument("--tiles", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    job = job_of(options.program, options.length)
    cases = [(checkpointing, tiles) for checkpointing in (True, False) for tiles in options.tiles]
    seconds, peaks, losses = {case: [] for case in cases}, dict.fromkeys(cases, 0), []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.rounds):
            for case in cases:
                steps, peak, of_run = run(options.program, job, *case, folder)
                seconds[case] += steps
                peaks[case] = max(peaks[case], peak)
                losses.append(of_run)
    worst = max(abs(a - b) for of_run in losses for a, b in zip(of_run, losses[0]))
    if worst > LOSS_TOLERANCE:
        sys.exit(f"losses differ by {worst}")
    print("| gradient checkpointing | tiles | step s | peak of the process, MB |\n| --- | ---: | ---: | ---: |")
    for checkpointing, tiles in cases:
        case = (checkpointing, tiles)
        print(f"| {'yes' if checkpointing else 'no'} | {tiles} | {statistics.median(seconds[case]):.2f} "
              f"| {peaks[case] / 1e6:.0f} |")


if __name__ == "__main__":
    main()
