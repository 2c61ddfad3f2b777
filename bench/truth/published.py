#!/usr/bin/env python3
"""Residuals of `sftbench predict` on published.csv: usage: published.py SFTBENCH [STACK] [--rows]

Without STACK each program has the nearest one. A row's time is asked at its `length`, its memory at `padded_to`, which
sets the peak. Memory that PyTorch allocated is held against the sum of the parts, other memory against what a process
holds with free blocks. `width` is the median of interval's high over low. 4 bit is asked as
GPTQ-LoRA, autocast of full tuning with parameters in float32, and unknown checkpointing as none, but for memory.
"""
import collections
import csv
import functools
import json
import math
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXPERIMENT = {"full": "full", "lora": "lora", "qlora": "gptq-lora", "gptq-lora": "gptq-lora", "prompt": "pt"}
STRATEGY = {"none": "FULL_SHARD", "DDP": "NO_SHARD", "FULL_SHARD": "FULL_SHARD", "ZERO3": "FULL_SHARD",
            "ZERO2": "SHARD_GRAD_OP", "ZERO1": "SHARD_OPTIM"}


# The program's stack. "transformers" stands for rows of different lengths.
STACKS = (("fms-hf-tuning baseline-peft-bnb", "transformers-bitsandbytes"), ("fms-hf-tuning", "fms-hf-tuning"),
          ("(ms-swift|qwen).* (bnb|int4 bnb)", "transformers-bitsandbytes"),
          ("unsloth", "unsloth"), ("torchtune", "torchtune"), ("litgpt", "litgpt"),
          (r"llmq|\bcompile|NeMo|Megatron|TransformerEngine|InternEvo", "fused"),
          ("ms-swift|qwen|soup|peft|llama-factory|transformers|glm", "transformers"), ("", "torch"))


def run(*words):
    return subprocess.run(words, capture_output=True, text=True)


def refusal(row, gpus, models):
    checks = (("GPU", row["gpu"] not in gpus, row["gpu"]), ("model", row["twin"] not in models, row["model"]),
              ("method", row["method"] not in EXPERIMENT, row["method"]),
              ("strategy", row["strategy"] not in STRATEGY, row["strategy"] or "unknown"),
              ("batch", not row["batch"] or not row["accumulation"], "?"), ("GPUs", int(row["gpus"]) > 32, row["gpus"]),
              ("optimizer", re.search("[48] bit|unknown", row["optimizer"]), row["optimizer"]))
    return next(((what, value) for what, wrong, value in checks if wrong), None)


def ask(command, row, length):
    gpus, method = int(row["gpus"]), EXPERIMENT[row["method"]]
    dtype, _, autocast = (row["precision"] or "bfloat16").partition(" ")
    fp8 = dtype == "fp8"
    dtype = dtype.replace("fp8", "bfloat16")
    mixed = autocast == "autocast" and method == "full"  # parameters in float32
    fused = str("foak" in row["stack"] or "liger" in row["stack"])
    properties = {
        "model_name": row["twin"], "model_max_length": length, "number_gpus": gpus, "number_nodes": row["nodes"],
        "gpu_model": row["gpu"], "batch_size": int(row["batch"]) * gpus, "bf16": str(mixed).lower(), "r": row["rank"],
        "gradient_accumulation_steps": row["accumulation"], "fsdp_sharding_strategy": STRATEGY[row["strategy"]],
        "torch_dtype": "float16" if method == "gptq-lora" else "float32" if mixed else dtype,
        "gradient_checkpointing": row["checkpointing"].replace("unknown", "false"),
        "fast_kernels": f"[{fused},{fused},{fused}]", "flash_attn": str(row["attention"] != "eager").lower()}
    optimizer, in_backward, _ = row["optimizer"].partition(" in backward")
    if "8bit" in optimizer:
        properties["optim"] = {"PagedAdamW8bit": "paged_adamw_8bit", "AdamW8bit": "adamw_bnb_8bit"}.get(optimizer, optimizer)
    if fp8:
        properties |= {"accelerate_config_mixed_precision": "fp8", "bf16": "false"}
    words = [word for key, value in properties.items() if value != "" for word in ("--set", f"{key}={value}")]
    if "lora" in method:
        names = row["targets"].replace(" ", ",")
        words += ["--lora-targets", re.sub("^$|.*(all-linear|w1|\\*).*", "all-linear", names)]
    stack = next(stack for name, stack in STACKS if re.match(name, row["stack"].lower()))
    if stack == "transformers" and row["strategy"].startswith("ZERO"):
        stack = "deepspeed"
    if stack == "transformers" and row["length"] == row["padded_to"]:
        stack = "torch"
    words += ["--stack", row["asked"] or stack + in_backward.replace(" ", "-"), "--experiment", f"finetune_{method}_benchmark-v1.0.0"]
    answer = run(*command, *words)
    if not answer.stdout:  # exit 3: it does not fit, and the answer is there
        raise ValueError(answer.stderr.strip().split("\n")[-1][:90])
    return json.loads(answer.stdout)


def residuals(row, asked):
    """(row, what, signed error, inside the interval, its high over its low) of what the row can be asked about."""
    within = lambda interval, value: (interval["low"] <= value <= interval["high"], interval["high"] / interval["low"])
    if row["length"] and (row["tokens_per_second"] or row["seconds_per_step"]):
        tokens = math.prod(int(row[key]) for key in ("batch", "accumulation", "gpus", "length"))
        measured = tokens / float(row["tokens_per_second"] or tokens / float(row["seconds_per_step"] or 1))
        step = asked(row["length"])["step_seconds"]
        yield row, "time", step["total"] / measured - 1, *within(step["interval"], measured)
    if row["padded_to"] and row["peak_memory_gib"] and row["checkpointing"] != "unknown":
        memory, measured = asked(row["padded_to"])["memory_bytes"], float(row["peak_memory_gib"]) * 2**30
        off = memory["needed"] - memory["total"] if row["memory_kind"] in ("allocated", "reserved") else 0
        interval = memory["interval" if row["memory_kind"] == "allocated" else "held"]
        yield row, "memory", (interval["expected"] - off) / measured - 1, *within(interval, measured + off)


def verdict(row, asked):
    """(held out, ran or died, what is said), or nothing."""
    known = row["peak_memory_gib"] or row["died"] == "true"
    if not known or not row["padded_to"] or row["checkpointing"] == "unknown":
        return None
    return row["held_out"], "died" if row["died"] == "true" else "ran", asked(row["padded_to"])["verdict"]


def group_of(row, what):
    size = "to" if int(row["length" if what == "time" else "padded_to"]) <= 1024 else "beyond"
    bits = "4 bit" if EXPERIMENT[row["method"]] == "gptq-lora" else row["precision"].split(" ")[0] or "bfloat16"
    return f"{what}, {size} 1024, {row['gpu']}, nodes {row['nodes']}, {bits}"


def table(title, found, key):
    print(f"\n{title}\n\n| rows | n | median | p90 | within 20 % | inside | bias | width |\n| --- {'| ---: ' * 7}|")
    for name in sorted({key(row, what) for row, what, *_ in found}):
        errors, held, widths = zip(*(numbers for row, what, *numbers in found if key(row, what) == name))
        n, s, bias = len(errors), sorted(map(abs, errors)), statistics.median(errors)
        shares = statistics.median(s), s[math.ceil(0.9 * n) - 1], sum(size <= 0.2 for size in s) / n, sum(held) / n
        print(f"| {name} | {n} | {' | '.join(f'{100 * share:.1f} %' for share in shares)} | {100 * bias:+.1f} % | "
              f"{statistics.median(widths):.2f} |")


def main():
    if not 2 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    sftbench, stack = (*(word for word in sys.argv[1:] if word != "--rows"), "")[:2]
    gpus, listed = ({each[key]: each for each in json.loads(run(sftbench, f"{key}s", "--format", "json").stdout)}
                    for key in ("gpu", "model"))
    ids = {each["weights"].lower(): name for name, each in listed.items() if each["weights"]}
    models = set(listed) | {path.name for path in HERE.glob("models/*")}
    found, reasons, verdicts = [], collections.Counter(), collections.Counter()
    rows = list(csv.DictReader(open(HERE / "published.csv")))
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        print(run("bash", HERE / "model_map.sh").stdout, file=config, flush=True)
        command = [sftbench, "predict", "--format", "json", "--config", config.name]
        for row in rows:
            row["asked"] = stack
            row["twin"] = re.sub(".*/|(-bnb-4bit|-unsloth-bnb-4bit)$", "", row["model"].lower())
            row["twin"] = re.sub("(-chat|-instruct|-it)$", "", row["twin"])  # of the same shapes
            row["twin"] = next((ids[f"{org}/{row['twin']}"] for org in ("google", "qwen", "meta-llama", "microsoft")
                                if f"{org}/{row['twin']}" in ids), row["twin"])
            try:
                reason = refusal(row, gpus, models)
                asked = functools.cache(lambda length: ask(command, row, length))
                some = [] if reason else list(residuals(row, asked))
                if not reason:
                    verdicts[verdict(row, asked)] += 1
            except ValueError as refused:
                reason, some = ("sftbench", str(refused)), []
            reasons[reason or ("figure", "length or checkpointing unknown")] += not some
            found += some
    for held, title in (("true", "Held-out sources"), ("false", "Other sources")):
        for key in (group_of, lambda row, what: f"{what}, {row['source']}", lambda row, what: what):
            table(title, [each for each in found if each[0]["held_out"] == held], key)
    for row, what, error, inside, _ in found if "--rows" in sys.argv else []:
        print(f"{group_of(row, what)}, {row['source']}, {row['twin']} {row['method']}, batch {row['batch']}, length "
              f"{row['length']} {row['padded_to']}: {100 * error:+.1f} %{'' if inside else ', outside'}")
    print("\n| rows | | fits | tight | oom |\n| --- | --- | ---: | ---: | ---: |")
    for held, end in sorted({key[:2] for key in verdicts if key}):
        counts = " | ".join(str(verdicts[held, end, said]) for said in ("fits", "tight", "oom"))
        print(f"| {'held-out' if held == 'true' else 'other'} | {end} | {counts} |")
    print(f"\n{len({id(each[0]) for each in found})} of {len(rows)} rows are asked. Not asked:")
    for (what, value), count in sorted((+reasons).items(), key=lambda each: (each[0][0], -each[1])):
        print(f"{count:4}  {what}: {value}")


if __name__ == "__main__":
    main()
