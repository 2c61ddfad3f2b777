#!/usr/bin/env python3
"""The least time that this machine needs for a step of a dense decoder: products at the rate that torch reaches here with
the model's own shapes, attention at half of that, and the bytes of the update and of element-wise work at the rate of a copy.

  bench/peers/limit.py JOB

JOB is what `sftbench run --dry-run` printed. Prints one JSON line: seconds of each part, and the rates. Recomputed layers
count as forward products, adapters as nothing. Where torch multiplies bfloat16 slower than float32, as below AVX-512 BF16, float32's rate counts.
"""
import json
import statistics
import sys
import time

import torch

COPIED_BYTES = 1 << 28


def seconds_of(call, repeats=5):
    call()
    times = []
    for _ in range(repeats):
        begin = time.monotonic()
        call()
        times.append(time.monotonic() - begin)
    return statistics.median(times)


def product_seconds(dtype, rows, inputs, outputs, trained):
    """Of a linear layer: forward, the input's gradient and, of trained weights, theirs."""
    x, y, w = (torch.randn(shape, dtype=torch.float32).to(dtype) for shape in ((rows, inputs), (rows, outputs), (outputs, inputs)))
    passes = [lambda: torch.mm(x, w.t()), lambda: torch.mm(y, w)] + ([lambda: torch.mm(y.t(), x)] if trained else [])
    return [seconds_of(call) for call in passes]


def fastest(dtype, *shape):
    """By pass, in the better of the two dtypes."""
    wide = product_seconds(torch.float32, *shape)
    if dtype == torch.float32:
        return wide
    once = torch.randn(shape[0], shape[1]).to(dtype), torch.randn(shape[1], shape[2]).to(dtype)
    if seconds_of(lambda: torch.mm(*once), repeats=1) > wide[0]:
        return wide
    return product_seconds(dtype, *shape)


def limit(job):
    config, batches = job["model"]["hf_config"], job["batches"]
    dtype = getattr(torch, job["precision"]["torch_dtype"])
    element = torch.finfo(dtype).bits // 8
    length, again = job["data"]["model_max_length"], job["activations"]["gradient_checkpointing"]
    rows = batches["per_device_batch_size"] * length
    hidden, middle, layers = config["hidden_size"], config["intermediate_size"], config["num_hidden_layers"]
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or hidden // heads
    q, kv = heads * head_dim, config.get("num_key_value_heads", heads) * head_dim
    trained = job["tuning"] == "full"

    seconds = flops = 0
    for inputs, outputs in ((hidden, q + 2 * kv), (q, hidden), (hidden, 2 * middle), (middle, hidden)):
        passes = fastest(dtype, rows, inputs, outputs, trained)
        seconds += layers * (sum(passes) + (passes[0] if again else 0))
        flops += layers * 2 * rows * inputs * outputs * (len(passes) + again)
    rate = flops / seconds
    head = fastest(dtype, rows, hidden, config["vocab_size"], trained)
    head_flops = 2 * rows * hidden * config["vocab_size"] * len(head)

    source, target = torch.ones(COPIED_BYTES, dtype=torch.uint8), torch.empty(COPIED_BYTES, dtype=torch.uint8)
    copy = 2 * COPIED_BYTES / seconds_of(lambda: target.copy_(source))
    # Half of the scores are needed. The backward pass is 2.5 forward passes.
    attention_flops = layers * 2 * rows * length * q * (4.5 if again else 3.5)
    layer_weights = hidden * (q + 2 * kv) + q * hidden + 3 * hidden * middle
    tied = 1 if config.get("tie_word_embeddings") else 2
    updated = layers * layer_weights + tied * hidden * config["vocab_size"] if trained else 0
    # Norms and residuals, SwiGLU, RoPE and what attention reads and writes, forward and backward.
    elements = layers * rows * (16 * hidden + 8 * middle + 10 * (q + kv))
    # An update reads parameter, gradient and two moments, and writes all but the gradient.
    parts = {"products": seconds, "head": sum(head), "attention": attention_flops / (rate / 2),
             "update": 7 * element * updated / copy, "elementwise": elements * element / copy}
    return {"seconds": sum(parts.values()), "parts": parts, "product_flops_per_s": rate,
            "head_flops_per_s": head_flops / sum(head), "copy_bytes_per_s": copy}


def main():
    with open(sys.argv[1]) as file:
        print(json.dumps(limit(json.load(file))))


if __name__ == "__main__":
    main()
