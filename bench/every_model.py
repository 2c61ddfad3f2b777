#!/usr/bin/env python3
"""Trains every documented model under its own name with random weights: two steps of full fine-tuning
where memory allows it, else of LoRA, else nothing but the resolved job and the arithmetic of its size.
Prints a Markdown table, one line as soon as it is known.

    python3 bench/every_model.py build/release/bin/sftbench [--most-gib 16] [--only NAME...]
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

GIB = 1 << 30
LENGTH = 64  # tokens of a row: arithmetic is not what this table is about


def available_bytes():
    for line in open("/proc/meminfo"):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    sys.exit("/proc/meminfo has no MemAvailable")


def method_for(parameters, most_bytes):
    if parameters is None:
        return None
    if 8.5 * parameters < most_bytes:  # bfloat16 weights, gradients, two moments
        return "full"
    return "lora" if 2.2 * parameters < most_bytes else None


def arguments(name, method, results):
    sets = {"model_name": name, "number_gpus": 0, "model_max_length": LENGTH, "batch_size": 1,
            "max_steps": 2, "gradient_accumulation_steps": 1,
            "dataset_id": "news-tokens-16384plus-entries-4096"}
    words = ["--experiment", f"finetune_{method}_benchmark-v1.0.0", "--weights", "random"]
    for key, value in sets.items():
        words += ["--set", f"{key}={value}"]
    return words + ["-o", str(results)]


def outcome(results, run):
    files = list(results.rglob("*.json"))
    if not files:
        return {"status": (run.stderr.strip().splitlines() or ["no result"])[-1]}
    measurement = json.loads(files[0].read_text())
    if measurement["status"] != "valid":
        return {"status": str(measurement.get("reason", {}).get("code", measurement["status"]))}
    return {"status": "2 steps", "measurement": measurement}


def trained(program, name, method, timeout_s):
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "run", *arguments(name, method, pathlib.Path(folder))]
        try:
            run = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s)
        except subprocess.TimeoutExpired:
            return {"status": f"not within {timeout_s} s"}
        return outcome(pathlib.Path(folder), run)


def resolved(program, name, facts):
    if facts == "unpublished":
        return {"status": "its architecture is not published"}
    with tempfile.TemporaryDirectory() as folder:
        command = [program, "run", "--dry-run", *arguments(name, "full", pathlib.Path(folder))]
        run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        return {"status": (run.stderr.strip().splitlines() or ["refused"])[-1].split(": ", 1)[-1][:100]}
    json.loads(run.stdout)
    return {"status": "resolved, too large for this machine"}


def row(model, method, found):
    parameters = f"{model['parameters']:,}" if model["parameters"] else "not published"
    cells = [model["model"], model["family"], parameters, method or "-", found["status"]]
    if "measurement" not in found:
        return cells + ["", ""]
    extra = found["measurement"]["extra"]
    return cells + [f"{extra['step_seconds'][-1]:.2f}",
                    f"{max(extra['memory_bytes']['host_peak_rss']) / GIB:.2f}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--most-gib", type=float, default=0.75 * available_bytes() / GIB)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--timeout", type=int, default=900)
    given = parser.parse_args()
    listed = subprocess.run([given.program, "models", "--format", "json"], capture_output=True,
                            text=True, check=True)
    print("| model | family | parameters | method | two steps | s in the second step | GiB at the peak |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for model in json.loads(listed.stdout):
        if given.only and model["model"] not in given.only:
            continue
        method = method_for(model["parameters"], given.most_gib * GIB) if model["trains"] else None
        found = (trained(given.program, model["model"], method, given.timeout) if method
                 else resolved(given.program, model["model"], model["facts"]))
        cells = row(model, method, found)
        print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
