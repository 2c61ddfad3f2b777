#!/usr/bin/env python3
"""The device memory that a training step reads and writes outside products and attention, by kernel: for each layer and
token, for each token outside of layers, and for each layer and step. usage: layers.py BIN [SHAPE[-lora]...],
the folder of a build for GPUs with tests and the target sftbench_engine_counted.

The engine runs on the phantom device with one and two layers, on two numbers of tokens, for two and three steps. What a
further step takes is c0 + cL L + cT T + cLT L T bytes for L layers and T tokens: four differences give the four figures.
Own kernels count sectors (accesses.cpp), and operators of libtorch their operands (tests/phantom/traffic.h)."""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

BIN = os.path.abspath(sys.argv[1])
ENGINE = os.environ.get("SFTBENCH_ENGINE", f"{BIN}/libsftbench_engine_counted.so")
GIB = 1 << 30
# Widths as they are. The vocabulary of 8B is an eighth of its own, so that its update ends in minutes.
SHAPES = {
    "llama3.1-8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_attention_heads": 32, "num_key_value_heads": 8,
                    "vocab_size": 16032, "tie_word_embeddings": False},
    "smollm2-135m": {"hidden_size": 576, "intermediate_size": 1536, "num_attention_heads": 9, "num_key_value_heads": 3,
                     "vocab_size": 49152, "tie_word_embeddings": True}}
LAYERS, TOKENS, STEPS = (1, 2), (32, 64), (2, 3)
PRODUCTS = re.compile(r"aten::(mm|addmm|bmm|baddbmm|_grouped_mm|linear)\b")

Bytes = collections.namedtuple("Bytes", "read written asked")


def kernel_names():
    listing = subprocess.run(["nm", "--demangle", "--defined-only", ENGINE], check=True, capture_output=True, text=True)
    names = {}
    for line in listing.stdout.splitlines():
        place, kind, name = line.split(" ", 2)
        if kind in "tT":
            names[int(place, 16)] = re.sub(r"^void |sftbench::ops::|\(anonymous namespace\)::", "", name).split("(")[0]
    return names


def traffic(folder, shape, method, layers, tokens, steps):
    """Bytes of a whole run by the name of what moved them."""
    model = f"{folder}/model"
    os.makedirs(model, exist_ok=True)
    with open(f"{model}/config.json", "w", encoding="utf-8") as file:
        json.dump({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
                   "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 500000.0,
                   "torch_dtype": "bfloat16", "num_hidden_layers": layers, **SHAPES[shape]}, file)
    lists = {name: f"{folder}/{name}" for name in ("operators", "kernels")}
    for path in lists.values():
        open(path, "w", encoding="utf-8").close()
    device = {"count": 1, "name": "NVIDIA H100 80GB HBM3", "memory_bytes": 80 * GIB, "major": 9, "multiprocessors": 132,
              "operators": f"{BIN}/libsftbench_phantom_operators.so"}
    environment = {**os.environ, "LD_PRELOAD": f"{BIN}/libsftbench_phantom.so", "LD_LIBRARY_PATH": f"{BIN}/phantom",
                   "SFTBENCH_ENGINE": ENGINE, "SFTBENCH_PHANTOM": json.dumps(device),
                   "SFTBENCH_PHANTOM_OPERATORS": lists["operators"], "SFTBENCH_TRAFFIC": lists["kernels"]}
    command = [f"{BIN}/sftbench", "run", "--experiment", f"finetune_{method}_benchmark-v1.0.0", "--weights", "random",
               "--model", model, "--no-progress", "--format", "json", "--output", f"{folder}/results",
               "--padding", "max_length"]
    values = {"gpu_model": "NVIDIA-H100-80GB-HBM3", "number_gpus": 1, "batch_size": 1, "model_max_length": tokens,
              "max_steps": steps, "gradient_accumulation_steps": 1, "gradient_checkpointing": "false",
              "torch_dtype": "bfloat16"}
    if method != "full":
        command += ["--lora-r=16", "--lora-targets=all-linear", "--lora-dropout=0"]
    for name, value in values.items():
        command += ["--set", f"{name}={value}"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if not done.stdout or json.loads(done.stdout)["status"] != "valid":
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    sums = collections.defaultdict(lambda: Bytes(0, 0, 0))
    with open(lists["operators"], encoding="utf-8") as file:
        for line in file:
            name, _, read, written = line.split()
            sums[name] = add(sums[name], Bytes(int(read), int(written), int(read) + int(written)))
    names = kernel_names()
    with open(lists["kernels"], encoding="utf-8") as file:
        for line in file:
            place, _, read, written, asked_read, asked_written = line.split()
            name = names[int(place, 16)]
            sums[name] = add(sums[name], Bytes(int(read), int(written), int(asked_read) + int(asked_written)))
    return sums


def add(a, b, sign=1):
    return Bytes(*(x + sign * y for x, y in zip(a, b)))


def less(a, b):
    return {name: add(a.get(name, Bytes(0, 0, 0)), b.get(name, Bytes(0, 0, 0)), -1) for name in {**a, **b}}


def scaled(a, divisor):
    return {name: Bytes(*(x / divisor for x in value)) for name, value in a.items()}


def table(title, moved):
    rows = sorted(((sum(value[:2]), name, value) for name, value in moved.items()), reverse=True)
    print(f"\n{title}\n\n| kernel or operator | read | written | both | asked for |\n| --- | ---: | ---: | ---: | ---: |")
    total = Bytes(0, 0, 0)
    for both, name, value in rows:
        if abs(both) < 0.5 and abs(value.asked) < 0.5:
            continue
        print(f"| `{name}` | {value.read:,.0f} | {value.written:,.0f} | {both:,.0f} | {value.asked:,.0f} |")
        total = add(total, value)
    print(f"| all | {total.read:,.0f} | {total.written:,.0f} | {sum(total[:2]):,.0f} | {total.asked:,.0f} |")
    return sum(total[:2])


def main():
    for work in sys.argv[2:] or ["llama3.1-8b", "llama3.1-8b-lora", "smollm2-135m"]:
        shape, method = re.fullmatch(r"(llama3\.1-8b|smollm2-135m)-?(lora)?", work).groups()
        step = {}
        with tempfile.TemporaryDirectory() as folder:
            for layers in LAYERS:
                for tokens in TOKENS:
                    fewer, more = (traffic(folder, shape, method or "full", layers, tokens, steps) for steps in STEPS)
                    step[layers, tokens] = {name: value for name, value in less(more, fewer).items()
                                            if not PRODUCTS.match(name) and "attention" not in name}
        one, two = (less(step[layers, TOKENS[1]], step[layers, TOKENS[0]]) for layers in LAYERS)
        tokens = TOKENS[1] - TOKENS[0]
        layer = scaled(less(two, one), tokens)
        outside = less(scaled(one, tokens), layer)
        of_layer = less(less(step[2, TOKENS[0]], step[1, TOKENS[0]]), scaled(layer, 1 / TOKENS[0]))
        width = SHAPES[shape]
        heads = width["hidden_size"] * (1 + 2 * width["num_key_value_heads"] / width["num_attention_heads"])
        kept = 2 * (5 * width["hidden_size"] + heads + 3 * width["intermediate_size"])
        print(f"\n## {work}")
        moved = table("Bytes for each layer and token", layer)
        print(f"\n{moved:,.0f} bytes, {moved / kept:.2f} for each of {kept:,.0f} bytes of activations")
        table(f"Bytes for each token outside of layers, with {width['vocab_size']} logits", outside)
        table("Bytes for each layer and step, whatever the tokens", of_layer)


if __name__ == "__main__":
    main()
