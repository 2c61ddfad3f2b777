#!/usr/bin/env python3
"""A few layers of each family beside Hugging Face Trainer: `sftbench run` and Trainer take turns on the same job.

    bench/peers/families.py PYTHON SFTBENCH [--dtype bfloat16 float32] [--length 512] [--rounds 3] [--steps 4]
                            [--only NAME...] [--experts eager]

PYTHON is an interpreter that has torch and transformers, SFTBENCH the built program. Each measurement is a process of
its own. The first step of each warms up and is left out. Weights are random, rows are full, batch 1, AdamW (fused).
--experts is Trainer's experts_implementation: grouped_mm unless said, eager for the loop over experts.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

# A documented model, and what is changed so that a few of its layers train within minutes.
SHAPES = {
    "granitemoe, 4 layers of granite-3.0-1b-a400m": ("granite-3.0-1b-a400m-base", {"num_hidden_layers": 4}),
    "granitemoehybrid, 3 Mamba-2 and 1 attention of granite-4.0-h-tiny": (
        "granite-4.0-h-tiny",
        {"num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "attention", "mamba"]}),
    "granitemoehybrid without experts, 4 layers of granite-4.0-h-micro": (
        "granite-4.0-h-micro",
        {"num_hidden_layers": 4, "layer_types": ["mamba", "mamba", "attention", "mamba"]}),
    "gpt_bigcode, 4 layers of 2048": (
        "granite-20b-v2", {"n_layer": 4, "n_embd": 2048, "n_inner": 8192, "n_head": 16, "n_positions": 8192}),
    "llama, 4 layers of llama3.2-1b": ("llama3.2-1b", {"num_hidden_layers": 4}),
}


def run(command, folder):
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr[-3000:]}")
    return done.stdout


def job_of(program, name, changes, options, dtype, folder):
    sets = {"model_name": name, "number_gpus": 0, "batch_size": 1, "gradient_accumulation_steps": 1,
            "gradient_checkpointing": "false", "torch_dtype": dtype, "max_steps": options.steps,
            "optim": "adamw_torch_fused", "model_max_length": options.length,
            "dataset_id": "news-tokens-16384plus-entries-4096"}
    command = [program, "run", "--dry-run", "--weights", "random", "--experiment", "finetune_full_benchmark-v1.0.0"]
    for key, value in sets.items():
        command += ["--set", f"{key}={value}"]
    job = json.loads(run(command, folder))
    job["model"]["hf_config"].update(changes)
    path = pathlib.Path(folder) / "job.json"
    path.write_text(json.dumps(job))
    return path


def ours(program, job, number, folder):
    results = pathlib.Path(folder) / f"results-{number}"
    run([program, "run", "--job", str(job), "-o", str(results)], folder)
    measurement = json.loads(next(results.rglob("*.json")).read_text())
    if measurement["status"] != "valid":
        sys.exit(f"{measurement['status']}: {measurement['reason']}")
    extra = measurement["extra"]
    return extra["step_seconds"][1:], max(extra["memory_bytes"]["host_peak_rss"])


def theirs(python, job, experts, folder):
    script = pathlib.Path(__file__).resolve().parent / "hf_trainer.py"
    command = [python, str(script), "--job", str(job)] + (["--experts", experts] if experts else [])
    result = json.loads(run(command, folder).strip().splitlines()[-1])
    return result["step_seconds"][1:], result["peak_rss_bytes"]


def compare(name, changes, dtype, options):
    steps, peaks = {"sftbench": [], "Trainer": []}, {"sftbench": 0, "Trainer": 0}
    with tempfile.TemporaryDirectory() as folder:
        job = job_of(options.sftbench, name, changes, options, dtype, folder)
        for number in range(options.rounds):
            for kind, (seconds, peak) in (("sftbench", ours(options.sftbench, job, number, folder)),
                                          ("Trainer", theirs(options.python, job, options.experts, folder))):
                steps[kind] += seconds
                peaks[kind] = max(peaks[kind], peak)
    return {kind: statistics.median(values) for kind, values in steps.items()}, peaks


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("sftbench", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--dtype", nargs="+", default=["bfloat16", "float32"], choices=["bfloat16", "float32"])
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--experts")
    options = parser.parse_args()
    print(f"batch 1x{options.length}, {options.rounds} processes of each in turn, medians")
    print("| shape | dtype | sftbench s/step | Trainer s/step | faster | peak GiB | of Trainer |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for title, (name, changes) in SHAPES.items():
        if options.only and not any(word in title for word in options.only):
            continue
        for dtype in options.dtype:
            seconds, peaks = compare(name, changes, dtype, options)
            print(f"| {title} | {dtype} | {seconds['sftbench']:.3f} | {seconds['Trainer']:.3f} "
                  f"| {seconds['Trainer'] / seconds['sftbench']:.2f} | {peaks['sftbench'] / 2**30:.2f} "
                  f"| {peaks['Trainer'] / 2**30:.2f} |", flush=True)


if __name__ == "__main__":
    main()
