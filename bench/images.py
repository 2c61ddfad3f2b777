#!/usr/bin/env python3
"""Tokens per second with and without images: a few layers of both vision models, trained on both datasets with images (cut
to short answers) and on text of as many tokens.

    bench/images.py SFTBENCH [--text-layers 2] [--vision-layers 4] [--rounds 3] [--steps 4]

Weights are random, batch 1, full fine-tuning in bfloat16 without checkpointing. The first step of each process warms up
and is left out. Prints a Markdown table.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

MODELS = {"granite-vision-3.2-2b": [-4, -3, -2, -1], "llava-v1.6-mistral-7b": -2}  # and the layers that the text model sees
IMAGES = ("vision-384x384-16384plus-entries-4096", "vision-384x768-16384plus-entries-4096")
TEXT = "news-tokens-16384plus-entries-4096"
MOST_TOKENS = 8192  # of a row: no picture of the datasets is cut off


def run(command, environment):
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))} ended with status {done.returncode}:\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


def make_datasets(program, environment, entries):
    folder = pathlib.Path(environment["XDG_DATA_HOME"]) / "sftbench" / "datasets"
    folder.mkdir(parents=True)
    for name in IMAGES:
        height = name.split("-")[1].split("x")[1]
        run([program, "dataset", "vision", "--tokens-output", "300", "--image-height", height,
             "--entries", str(entries), "-o", folder / f"{name}.parquet"], environment)
    run([program, "dataset", "text", "--tokens-output", "16384", "--entries", str(entries),
         "-o", folder / f"{TEXT}.jsonl"], environment)


def job_of(program, environment, model, dataset, length, options, path):
    sets = {"model_name": model, "number_gpus": 0, "batch_size": 1, "gradient_accumulation_steps": 1,
            "gradient_checkpointing": "false", "torch_dtype": "bfloat16", "max_steps": options.steps,
            "model_max_length": length, "dataset_id": dataset}
    if dataset in IMAGES:
        sets |= {"dataset_image_field": "images", "remove_unused_columns": "false"}
    command = [program, "run", "--dry-run", "--weights", "random", "--experiment", "finetune_full_benchmark-v1.0.0"]
    for key, value in sets.items():
        command += ["--set", f"{key}={value}"]
    job = json.loads(run(command, environment))
    config = job["model"]["hf_config"]
    config["text_config"]["num_hidden_layers"] = options.text_layers
    config["vision_config"]["num_hidden_layers"] = options.vision_layers
    config["vision_feature_layer"] = MODELS[model]
    path.write_text(json.dumps(job))
    return path


def measured(program, environment, job):
    with tempfile.TemporaryDirectory() as results:
        run([program, "run", "--job", job, "-o", results], environment)
        measurement = json.loads(next(pathlib.Path(results).rglob("*.json")).read_text())
    if measurement["status"] != "valid":
        sys.exit(f"{job}: {measurement['status']}: {measurement['reason']}")
    return measurement["extra"]


def row(model, data, extras, steps):
    seconds = statistics.median(second for extra in extras for second in extra["step_seconds"][1:])
    tokens = extras[0]["tokens"]["dataset"] / steps
    peak = max(max(extra["memory_bytes"]["host_peak_rss"]) for extra in extras)
    print(f"| {model} | {data} | {tokens:.0f} | {seconds:.3f} | {tokens / seconds:.0f} | {peak / 2**30:.2f} |", flush=True)
    return round(tokens)


def compare(model, options, environment, folder):
    extras, lengths = {}, {}
    for dataset in IMAGES:
        job = job_of(options.sftbench, environment, model, dataset, MOST_TOKENS, options, folder / f"{model}-{dataset}.json")
        extras[dataset] = [measured(options.sftbench, environment, job)]
        lengths[dataset] = round(extras[dataset][0]["tokens"]["dataset"] / options.steps)
    texts = {dataset: job_of(options.sftbench, environment, model, TEXT, lengths[dataset], options,
                             folder / f"{model}-{dataset}-text.json") for dataset in IMAGES}
    text_extras = {dataset: [] for dataset in IMAGES}
    for turn in range(options.rounds):
        for dataset in IMAGES:
            if turn > 0:
                extras[dataset].append(measured(options.sftbench, environment, folder / f"{model}-{dataset}.json"))
            text_extras[dataset].append(measured(options.sftbench, environment, texts[dataset]))
    for dataset in IMAGES:
        row(model, dataset, extras[dataset], options.steps)
        row(model, "text of as many tokens", text_extras[dataset], options.steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sftbench", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("--text-layers", type=int, default=2)
    parser.add_argument("--vision-layers", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    options = parser.parse_args()
    print(f"{options.text_layers} layers of text, {options.vision_layers} of vision, batch 1, {options.rounds} processes of "
          "each in turn, medians")
    print("| model | data | tokens a step | s/step | tokens/s | peak GiB |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "XDG_DATA_HOME": folder}
        make_datasets(options.sftbench, environment, 4 * options.steps)
        for model in MODELS:
            compare(model, options, environment, pathlib.Path(folder))


if __name__ == "__main__":
    main()
