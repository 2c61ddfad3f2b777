#!/usr/bin/env python3
"""The engine beside Hugging Face Trainer on the same work: a model's shapes, random weights, batch 1 x 512,
AdamW (fused), clipping, SDPA attention.

  bench/peers/compare.py PYTHON STEP_BENCH [--dtype bfloat16] [--rounds 3] [--steps 4] [--tuning full|lora|pt]
                         [--checkpointing] [--config MODEL [--layers N] [--vocabulary V]]

PYTHON is an interpreter that has torch and transformers, STEP_BENCH the built bench/step program. Each measurement is
a process of its own and the two kinds take turns. The first step of each process warms up and is left out of the
tokens per second; it is what the start-up time ends with.

MODEL is a model of config/models.yaml or a config.json, SmolLM2-135M without it. --layers keeps its first N layers.
Both kinds draw weights and tokens of their own, as the model's initializer says: their first losses must agree within
2 %, or the work is not the same. Losses on equal weights are what tests/engine/golden_training_test.cpp holds.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path


def run(command):
    # Trainer logs to stdout as well; the result is the last line.
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} ended with status {done.returncode}:\n{done.stderr}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def config_of(options):
    """The config.json of --config, as short as asked for."""
    if Path(options.config).is_file():
        config = json.loads(Path(options.config).read_text())
    else:
        import yaml
        models = yaml.safe_load((Path(__file__).resolve().parents[2] / "config/models.yaml").read_text())["models"]
        if options.config not in models:
            sys.exit(f"--config {options.config}: neither a file nor a model of config/models.yaml")
        config = models[options.config]["config"]
    if options.layers:
        config["n_layer" if "n_layer" in config else "num_hidden_layers"] = options.layers
        for key in ("layer_types", "layers_block_type"):
            if key in config:
                config[key] = config[key][:options.layers]
    if options.vocabulary:
        config["vocab_size"] = options.vocabulary
    # Random tokens may be any: none may end a sequence that the model does not have.
    for key in ("bos_token_id", "eos_token_id", "pad_token_id"):
        config.pop(key, None)
    return config


def require_equal_work(results):
    first = {name: runs[0]["losses"][0] for name, runs in results.items()}
    ours, theirs = first["sftbench"], first["HF Trainer"]
    print(f"first losses: {ours:.4f}, HF Trainer {theirs:.4f}")
    if abs(ours - theirs) > 0.02 * abs(theirs):
        sys.exit("the first losses differ by more than 2 %: this is not the same work")


def quartiles(values):
    ordered = sorted(values)
    return [ordered[round(q * (len(ordered) - 1))] for q in (0.25, 0.5, 0.75)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python")
    parser.add_argument("step_bench")
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--tuning", default="full", choices=["full", "lora", "pt"])
    parser.add_argument("--checkpointing", action="store_true")
    parser.add_argument("--config")
    parser.add_argument("--layers", type=int)
    parser.add_argument("--vocabulary", type=int)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        compare(options, folder)


def compare(options, folder):
    shared = ["--dtype", options.dtype, "--length", str(options.length), "--steps", str(options.steps)]
    shared += ["--checkpointing"] if options.checkpointing else []
    if options.config:
        path = Path(folder) / "config.json"
        path.write_text(json.dumps(config_of(options)))
        shared += ["--config", str(path)]
    peft = {"full": "none"}.get(options.tuning, options.tuning)
    commands = {
        "sftbench": [str(Path(options.step_bench).resolve()), "--child", options.tuning, *shared],
        "HF Trainer": [options.python, str(Path(__file__).resolve().parent / "hf_trainer.py"), *shared, "--peft", peft],
    }
    results = {name: [] for name in commands}
    for _ in range(options.rounds):
        for name, command in commands.items():
            results[name].append(run(command))

    shapes = " ".join([options.config or "SmolLM2-135M", *([f"with {options.layers} layers"] if options.layers else []),
                       *([f"with {options.vocabulary} tokens"] if options.vocabulary else [])])
    print(f"{shapes}, batch 1x{options.length}, {options.dtype}, tuning {options.tuning}, checkpointing "
          f"{'on' if options.checkpointing else 'off'}, {options.rounds} processes of each in turn")
    print(f"{'':12}{'tokens/s p25':>13}{'median':>9}{'p75':>9}{'start to 1st step s':>21}{'peak MiB':>10}")
    figures = {}
    for name, runs in results.items():
        rates = [r["tokens_per_step"] / s for r in runs for s in r["step_seconds"][1:]]
        start = statistics.median(r["first_step_process_age_s"] for r in runs)
        peak = max(r["peak_rss_bytes"] for r in runs) / 2**20
        low, middle, high = quartiles(rates)
        figures[name] = (middle, start, peak)
        print(f"{name:12}{low:13.1f}{middle:9.1f}{high:9.1f}{start:21.2f}{peak:10.0f}")
    ours, theirs = figures["sftbench"], figures["HF Trainer"]
    print(f"sftbench / HF Trainer: speed {ours[0] / theirs[0]:.2f}, start-up {ours[1] / theirs[1]:.3f}, "
          f"memory {ours[2] / theirs[2]:.2f}")
    require_equal_work(results)
    print(f"HF Trainer ran on torch {results['HF Trainer'][0]['torch']}, "
          f"{results['HF Trainer'][0]['threads']} threads")


if __name__ == "__main__":
    main()
