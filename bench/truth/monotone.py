#!/usr/bin/env python3
"""Pairs of questions to `sftbench predict` that differ in one thing, whose effect has a known sign: usage: monotone.py SFTBENCH
[--count N=2000] [--seed N=1] [--show N=3]

A random space is answered by one process, and again with another method, more GPUs with as many rows each, or more nodes. Of its
pairs some are drawn. A figure has five digits, so a difference below 3e-5 is none. The exit status is 1 where a sign is wrong, and
so many pairs of each kind are shown, the worst ones first.
"""
import argparse
import collections
import json
import random
import subprocess
import sys
import tempfile

MODELS = [["llama3.2-1b", "llama3.2-3b", "llama3.1-8b", "llama3.1-70b"], ["llama-7b", "llama-13b", "llama2-70b"],
          [f"qwen2.5-{size}b" for size in ("0.5", "1.5", "3", "7", "14", "32", "72")],
          [f"qwen3-{size}b" for size in ("0.6", "1.7", "4", "8", "14", "32")], ["gemma3-1b", "gemma3-4b", "gemma3-12b", "gemma3-27b"],
          ["gemma2-2b", "gemma2-9b", "gemma2-27b"], ["granite-3.1-2b", "granite-3.1-8b-instruct"],
          ["falcon3-1b", "falcon3-3b", "falcon3-10b"], ["smollm2-135m", "smollm2-360m", "smollm2-1.7b"],
          ["pythia-410m", "pythia-1.4b", "pythia-6.9b"]]
GPUS = [["NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3", "NVIDIA-H200", "NVIDIA-B200"],
        ["Tesla-T4", "NVIDIA-A10G", "L40S", "NVIDIA-RTX-6000-Ada-Generation"], ["Tesla-V100-SXM2-32GB", "NVIDIA-A100-SXM4-80GB"],
        ["NVIDIA-GeForce-RTX-3060", "NVIDIA-GeForce-RTX-3090", "NVIDIA-GeForce-RTX-4090", "NVIDIA-GeForce-RTX-5090"],
        ["NVIDIA-L4", "NVIDIA-A10"], ["NVIDIA-RTX-A4000", "NVIDIA-RTX-A5000"], ["NVIDIA-H100-PCIe", "NVIDIA-H100-80GB-HBM3"]]
STACKS = ["transformers", "transformers", "transformers-trl", "sftbench", "torch", "litgpt", "fused"]
# Values in an order of which memory and time of a step grow (1) or fall (-1), or 0 where the sign is not known.
AXES = {
    "model_name": (None, 1, 1), "gpu_model": (None, 0, -1),
    "model_max_length": ([128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768], 1, 1), "rows": ([1, 2, 3, 4, 6, 8, 16, 32], 1, 1),
    "r": ([4, 8, 16, 64, 256], 1, 1), "target_modules": (["q_proj,v_proj", "all-linear"], 1, 1),
    "gradient_accumulation_steps": ([1, 2, 4, 8, 16], 1, 1), "gradient_checkpointing": ([False, True], -1, 1),
    "flash_attn": ([True, False], 1, 1), "torch_dtype": (["bfloat16", "float32"], 1, 1),
    "fast_kernels": ([["False"] * 3, ["True"] * 3], -1, -1), "optim": (["adamw_bnb_8bit", "adamw_torch"], 1, 0),
    "fsdp_sharding_strategy": (["FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD"], 1, 0), "mlp_tiles": ([1, 4], -1, 1),
    "offload_activations": ([False, True], -1, 0), "offload_optimizer": ([False, True], -1, 0)}
OTHERS = {"method": (["full", "lora", "gptq-lora"], -1, 0), "number_gpus": ([1, 2, 4, 8, 16], -1, 1), "number_nodes": ([1, 2], 0, 1)}
DEFAULTS = {"gradient_checkpointing": True, "flash_attn": True, "torch_dtype": "bfloat16", "target_modules": "all-linear"}


def ask(sftbench, stack, asked, space):
    """What predict says of the space: {values: (memory, seconds)}."""
    values = {name: [row * asked["number_gpus"] for row in some] if name == "rows" else some for name, some in space.items()
              if asked["method"] != "full" or name not in ("r", "target_modules")}
    if asked["method"] == "gptq-lora":  # knows float16 alone
        values["torch_dtype"] = ["float16"]
    fixed = {"number_gpus": asked["number_gpus"], "number_nodes": asked["number_nodes"]}
    domains = [{"identifier": "batch_size" if name == "rows" else name, "propertyDomain": {"values": some}}
               for name, some in (values | {name: [value] for name, value in fixed.items()}).items()]
    experiment = {"experimentIdentifier": f"finetune_{asked['method']}_benchmark-v1.0.0", "actuatorIdentifier": "SFTTrainer"}
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump({"experiments": [experiment], "entitySpace": domains}, file)
        file.flush()
        done = subprocess.run([sftbench, "predict", file.name, "--stack", stack, "--format", "jsonl"], capture_output=True, text=True)
    if not done.stdout:
        sys.exit(f"{asked} {space}: {done.stderr.strip().splitlines()[-1]}")
    found = {}
    for answer in map(json.loads, done.stdout.splitlines()):
        answer["rows"] = answer.get("batch_size", values["rows"][0]) // asked["number_gpus"]
        answer |= {"torch_dtype": space["torch_dtype"][0]} if asked["method"] == "gptq-lora" else {}
        key = tuple(repr(answer.get(name, some[0])) for name, some in space.items())
        if answer.get("memory_GiB"):
            found[key] = answer["memory_GiB"], answer["step_s"]
    return found


def drawn_space(draw):
    """Two values of five properties, and one of the others."""
    orders = {"model_name": draw.choice(MODELS), "gpu_model": draw.choice(GPUS)} | {
        name: order for name, (order, *_) in AXES.items() if order}
    varied = draw.sample(sorted(orders), 5)
    space = {}
    for name, order in orders.items():
        at = sorted(draw.sample(range(len(order)), 2)) if name in varied else [draw.randrange(len(order))]
        space[name] = [order[each] for each in at] if name in varied or draw.random() < 0.4 or name not in DEFAULTS else [DEFAULTS[name]]
    if {"Tesla-T4", "Tesla-V100-SXM2-32GB"} & set(space["gpu_model"]):  # no bfloat16
        space["torch_dtype"] = ["float16"]
    return space, [name for name in varied if len(space[name]) == 2]


def wrong_by(sign, before, after):
    change = (after - before) / before
    return max(0, -sign * change) if abs(change) > 3e-5 else 0


def has_sign(axis, asked, values):
    """Shards save memory where all is divided. FSDP keeps a shard beside whole frozen parameters, so that adapters may take more."""
    if axis == "fsdp_sharding_strategy":
        return asked["method"] == "full"
    return axis != "number_gpus" or values["fsdp_sharding_strategy"] == repr("FULL_SHARD")


def pairs_of(sftbench, draw):
    """(axis, what both have, from, to, answers) of one space."""
    space, varied = drawn_space(draw)
    stack = draw.choice(STACKS)
    asked = {"method": draw.choice(OTHERS["method"][0]), "number_gpus": draw.choice([1, 1, 2, 4, 8]), "number_nodes": 1}
    found, names = ask(sftbench, stack, asked, space), list(space)
    for at, name in enumerate(names):
        for key, answer in found.items():
            low, high = map(repr, space[name][:2]) if name in varied else ("", "")
            other = (*key[:at], high, *key[at + 1:])
            if name in varied and key[at] == low and other in found:
                yield name, (stack, asked, dict(zip(names, key))), low, high, answer, found[other]
    axis = draw.choice(sorted(OTHERS))
    order = OTHERS[axis][0]
    now = order.index(asked[axis])
    if now + 1 < len(order) and not (axis == "number_nodes" and asked["number_gpus"] == 1):
        other = ask(sftbench, stack, asked | {axis: order[now + 1]}, space)
        for key in found.keys() & other.keys() if axis != "method" or space["torch_dtype"] != ["float32"] else ():
            yield axis, (stack, asked, dict(zip(names, key))), asked[axis], order[now + 1], found[key], other[key]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sftbench")
    for name, default in (("--count", 2000), ("--seed", 1), ("--show", 3)):
        parser.add_argument(name, type=int, default=default)
    options = parser.parse_args()
    draw, counts, wrong, left = random.Random(options.seed), collections.Counter(), collections.defaultdict(list), options.count
    while left:
        by_axis = collections.defaultdict(list)
        for pair in pairs_of(options.sftbench, draw):
            if has_sign(pair[0], *pair[1][1:]):
                by_axis[pair[0]].append(pair)
        for axis in sorted(by_axis):
            for axis, both, low, high, before, after in draw.sample(by_axis[axis], min(5, left, len(by_axis[axis]))):
                left -= 1
                _, *signs = (AXES | OTHERS)[axis]
                for what, at, sign in (("memory", 0, signs[0]), ("time", 1, signs[1])):
                    counts[axis, what] += sign != 0
                    error = wrong_by(sign, before[at], after[at])
                    if sign and error:
                        wrong[axis, what].append((error, both, low, high, before[at], after[at]))
    print("| from less to more | | pairs | wrong | worst |\n|---|---|--:|--:|--:|")
    for (axis, what), count in sorted(counts.items()):
        found = sorted(wrong[axis, what], key=lambda each: -each[0])
        if count:
            print(f"| {axis} | {what} | {count} | {len(found)} | {f'{100 * found[0][0]:.2g} %' if found else ''} |")
    for (axis, what), found in sorted(wrong.items()):
        for error, (stack, asked, values), low, high, before, after in sorted(found, key=lambda each: -each[0])[:options.show]:
            print(f"\n{axis} {low} to {high}: {what} {before} to {after}; {stack} {asked} {values}")
    sys.exit(any(wrong.values()))


if __name__ == "__main__":
    main()
