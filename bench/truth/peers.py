#!/usr/bin/env python3
"""Estimates of peers on the rows of bench/truth, beside this program's: usage: peers.py SFTBENCH TRUTH

TRUTH is the folder that import.sh made. Each peer answers as it is shipped, and only for what it knows:

  kavier 0.5.3                 time: `kavier training` with its calibration, for models and GPUs of its libraries
  accelerate estimate-memory   memory: training with Adam. It knows one device and no adapters
  DeepSpeed                    memory: estimate_zero3_model_states_mem_needs over the GPUs of the row. It knows no adapters
  LLaMA-Factory                memory: the table of its README ("Hardware Requirement"), over the GPUs of the row

Run it with the Python of a virtual environment outside this repository that has kavier, accelerate, transformers and
DeepSpeed. A peer that cannot be loaded is left out by name.
"""
import json
import logging
import math
import statistics
import subprocess
import sys
import warnings
from pathlib import Path

DEVICE_BYTES = 80 * 2**30  # of every GPU here
FITTED = ("mistral-7b-v0.1", "mpt-7b")  # config/machines.yaml


def output_of(command):
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return json.loads(done.stdout)


class Rows:
    """Evidence, each row with its model's config.json and this program's errors."""

    def __init__(self, sftbench, truth):
        self.sftbench, self.truth = sftbench, Path(truth)
        self.configs = {}
        ours = output_of([sftbench, "predict", "--score", truth, "--config", str(self.truth / "models.yaml"), "--rows",
                          "--format", "json"])
        by_source = {row["source"]: row for row in ours}
        self.rows = []
        for file in sorted(self.truth.glob("evidence/*.jsonl")):
            for line in file.read_text().splitlines():
                row = json.loads(line)
                row["ours"] = by_source[row["source"]]
                row["table"] = row["source"].split(":")[0]
                row["method"] = row["experiment"].split("_")[1]
                row["gpus"] = row["inputs"]["number_gpus"]
                self.rows.append(row)

    def config_of(self, name):
        if name not in self.configs:
            own = Path(__file__).parent / "models" / name / "config.json"
            self.configs[name] = (json.loads(own.read_text()) if own.exists() else
                                  output_of([self.sftbench, "models", name, "--format", "json"])["config"])
        return self.configs[name]


class MetaModels:
    """transformers' models without memory, in 16 bits as all rows with a peak are: what estimators count."""

    def __init__(self, rows):
        from accelerate import init_empty_weights
        from transformers import AutoConfig, AutoModelForCausalLM
        self.rows, self.models = rows, {}
        self.make = lambda config: AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype="bfloat16")
        self.empty = init_empty_weights

    def of(self, name):
        if name not in self.models:
            with self.empty():
                self.models[name] = self.make(dict(self.rows.config_of(name)))
                self.models[name].tie_weights()
        return self.models[name]


# --- peers: each a function of a row to seconds of a step over measured, or bytes of a device ----------------------------

def kavier(_rows):
    from kavier.sdk.training.core.engine import simulate_full_training
    names = {"mpt-30b": "MPT-30B"}
    gpus = {"NVIDIA-H100-80GB-HBM3": "H100-SXM"}

    def tokens_per_second(row):
        inputs = row["inputs"]
        nodes = inputs.get("number_nodes", 1)
        try:
            found = simulate_full_training(
                model_name=names.get(inputs["model_name"], inputs["model_name"]), method=row["method"],
                gpu_model=gpus.get(inputs["gpu_model"], inputs["gpu_model"]),
                tokens_per_sample=inputs["model_max_length"], batch_size=inputs["batch_size"] // row["gpus"],
                number_gpus=row["gpus"] // nodes, number_nodes=nodes)
        except KeyError:  # a model or GPU that it does not list
            return None
        return found["train_tokens_per_second"]

    return tokens_per_second


def accelerate(rows):
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils.modeling import calculate_maximum_sizes
    models = MetaModels(rows)

    def memory_bytes(row):
        total, _ = calculate_maximum_sizes(models.of(row["inputs"]["model_name"]))
        return max(estimate_training_usage(total, "float32").values())  # no precision is mixed: four times the weights

    return memory_bytes


def deepspeed(rows):
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    models = MetaModels(rows)

    def memory_bytes(row):
        # Its model_to_params tells tensors apart by their addresses, which these have none of.
        model = models.of(row["inputs"]["model_name"])
        total = sum(p.numel() for p in model.parameters())
        largest = max(sum(p.numel() for p in module.parameters(recurse=False)) for module in model.modules())
        _, device, _ = estimate_zero3_model_states_mem_needs(
            total, largest, num_gpus_per_node=row["gpus"], num_nodes=1, cpu_offload=False, cpu_offload_params=False,
            zero_init=True)
        return device

    return memory_bytes


def llama_factory(rows):
    per_parameter = {"full": 18, "lora": 2, "gptq-lora": 0.5}
    models = MetaModels(rows)

    def memory_bytes(row):
        parameters = sum(p.numel() for p in models.of(row["inputs"]["model_name"]).parameters())
        return per_parameter[row["method"]] * parameters / row["gpus"]

    return memory_bytes


# --- errors -----------------------------------------------------------------------------------------------------------

def line(name, errors, asked):
    sizes = sorted(abs(e) for e in errors)
    p90 = sizes[min(len(sizes) - 1, math.ceil(0.9 * len(sizes)) - 1)]
    print(f"| {name} | {len(errors)} of {asked} | {100 * statistics.median(sizes):.1f} % | {100 * p90:.1f} % | "
          f"{100 * sum(s <= 0.2 for s in sizes) / len(sizes):.1f} % | {100 * statistics.median(errors):+.1f} % |")


def loaded(name, peer, rows):
    try:
        return peer(rows)
    except ImportError as error:
        print(f"{name} is left out: {error}", file=sys.stderr)
        return None


def compare_time(rows):
    print("| rows | | predicted | median | p90 | within 20 % | bias |\n|---|---|--:|--:|--:|--:|--:|")
    ask = loaded("kavier", kavier, rows)
    if ask is None:
        return
    valid = [row for row in rows.rows if row["outcome"] == "valid" and row["tokens_per_second"]]
    groups = {"all": valid, "all but the models of our constants":
              [row for row in valid if row["inputs"]["model_name"] not in FITTED]}
    for table in sorted({row["table"] for row in valid}):
        groups[table] = [row for row in valid if row["table"] == table]
    for table, asked in groups.items():
        both = [(row, ask(row)) for row in asked]
        known = [(row, rate) for row, rate in both if rate is not None and row["ours"]["time_error_%"] is not None]
        if not known:
            continue
        line(f"{table} | kavier", [row["tokens_per_second"] / rate - 1 for row, rate in known], len(asked))
        line(f"{table} | sftbench, the same rows", [row["ours"]["time_error_%"] / 100 for row, _ in known], len(asked))


def compare_memory(rows):
    measured = [row for row in rows.rows if row["allocated_bytes"] and row["ours"]["memory_error_%"] is not None]
    ended = [row for row in rows.rows if row["table"].startswith("fms") and row["ours"]["verdict"]]
    print("\n| rows | | predicted | median | p90 | within 20 % | bias |\n|---|---|--:|--:|--:|--:|--:|")
    verdicts = []
    for name, peer in (("accelerate estimate-memory", accelerate), ("DeepSpeed, ZeRO 3", deepspeed),
                       ("LLaMA-Factory's table", llama_factory)):
        ask = loaded(name, peer, rows)
        if ask is None:
            continue
        for method in ("full", "lora", "gptq-lora"):
            asked = [row for row in measured if row["method"] == method]
            line(f"{method} | {name}", [ask(row) / row["allocated_bytes"] - 1 for row in asked], len(asked))
        verdicts.append((name, lambda row, ask=ask: ask(row) > DEVICE_BYTES))
    for method in ("full", "lora", "gptq-lora"):
        asked = [row for row in measured if row["method"] == method]
        line(f"{method} | sftbench", [row["ours"]["memory_error_%"] / 100 for row in asked], len(asked))
    verdicts.append(("sftbench, \"tight\" as fits", lambda row: row["ours"]["verdict"] == "oom"))
    print("\n| | right | ran, said to die | died, said to fit |\n|---|--:|--:|--:|")
    for name, dies in verdicts:
        wrong_deaths = sum(row["outcome"] == "valid" and dies(row) for row in ended)
        wrong_fits = sum(row["outcome"] != "valid" and not dies(row) for row in ended)
        right = len(ended) - wrong_deaths - wrong_fits
        print(f"| {name} | {right} of {len(ended)} | {wrong_deaths} | {wrong_fits} |")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    warnings.simplefilter("ignore")  # kavier says of each model that it was not calibrated on it
    logging.disable(logging.WARNING)  # DeepSpeed logs to stdout, between the rows
    rows = Rows(*sys.argv[1:])
    compare_time(rows)
    compare_memory(rows)


if __name__ == "__main__":
    main()
