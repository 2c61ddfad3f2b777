#!/usr/bin/env python3
"""Holds the results of optimizers.sh against what each value of `optim` promises: it trains, and its states take the
bytes that the formats in docs/reference/optimizers.md have. usage: optimizers.py FOLDER '["adamw_hf", ...]'"""
import json
import math
import sys
from pathlib import Path

HIDDEN, INTERMEDIATE, KEYS, LAYERS = 64, 128, 32, 2
TARGETS = [(HIDDEN, HIDDEN)] * 2 + [(KEYS, HIDDEN)] * 2 + [(INTERMEDIATE, HIDDEN)] * 2 + [(HIDDEN, INTERMEDIATE)]
NORMS = 2 * LAYERS + 1

# States as large as the parameter: how many, and whether they are float32 whatever the parameter is.
PLAIN = {"sgd": (0, False), "lomo": (0, False), "adagrad": (1, False), "rmsprop": (1, False), "rmsprop_bnb": (1, True),
         "rmsprop_bnb_32bit": (1, True), "lion_32bit": (1, True), "paged_lion_32bit": (1, True),
         "schedule_free_sgd": (1, False), "adamw_hf": (2, False), "adamw_torch": (2, False),
         "adamw_torch_fused": (2, False), "schedule_free_adamw": (2, False), "adamw_apex_fused": (2, True),
         "adamw_anyprecision": (2, True), "paged_adamw_32bit": (2, True), "grokadamw": (3, False),
         "ademamix": (3, True), "paged_ademamix_32bit": (3, True)}
EIGHT_BIT = {"adamw_bnb_8bit": 2, "adamw_8bit": 2, "paged_adamw_8bit": 2, "ademamix_8bit": 3, "paged_ademamix_8bit": 3,
             "lion_8bit": 1, "paged_lion_8bit": 1, "rmsprop_bnb_8bit": 1}
ABSENT = {"adamw_torch_xla": "XLA", "adamw_torch_npu_fused": "NPU"}


def factored(shape):
    return 4 * sum(shape)


def in_blocks(numel, states):
    """8-bit states, which small tensors do not have."""
    return states * (numel + 4 * math.ceil(numel / 256)) if numel >= 4096 else 4 * states * numel


def galore(name, shape, width):
    rank, larger = min(128, *shape), max(shape)
    if "8bit" in name:
        return in_blocks(rank * larger, 2) + width * rank * min(shape)
    if "adafactor" in name:
        return 4 * (rank + larger + rank * min(shape))
    return width * (2 * rank * larger + rank * min(shape))


def state_bytes(name, vocabulary, width):
    """Of all parameters, `width` bytes an element."""
    embedding, norm = vocabulary * HIDDEN, HIDDEN
    numel = embedding + LAYERS * sum(a * b for a, b in TARGETS) + NORMS * norm
    if name in PLAIN:
        count, wide = PLAIN[name]
        return count * (4 if wide else width) * numel
    if name in EIGHT_BIT:
        states = EIGHT_BIT[name]
        others = [norm] * NORMS + [a * b for a, b in TARGETS] * LAYERS
        return 4 * states * embedding + sum(in_blocks(n, states) for n in others)
    if name == "adamw_torch_4bit":
        sizes = [embedding] + [norm] * NORMS + [a * b for a, b in TARGETS] * LAYERS
        return sum(2 * (n / 2 + 4 * n / 256) if n >= 4096 and n % 256 == 0 else 2 * width * n for n in sizes)
    if name in ("adafactor", "adalomo"):
        return factored((vocabulary, HIDDEN)) + LAYERS * sum(map(factored, TARGETS)) + NORMS * 4 * norm
    name = name.removesuffix("_layerwise")
    others = {"galore_adafactor": factored((vocabulary, HIDDEN)) + NORMS * 4 * norm,
              "galore_adamw": 2 * width * (embedding + NORMS * norm),
              "galore_adamw_8bit": in_blocks(embedding, 2) + NORMS * in_blocks(norm, 2)}[name]  # its embedding, too
    return others + LAYERS * sum(galore(name, target, width) for target in TARGETS)


def complaint(result):
    """What is wrong with it, or nothing."""
    name, dtype = result["inputs"]["optim"], result["inputs"]["torch_dtype"]
    reason = result["reason"] or {}
    if name in ABSENT:
        if (result["status"], reason.get("code")) != ("failed", "UNSUPPORTED"):
            return f"{result['status']} {reason}"
        message = reason["message"]
        return "" if ABSENT[name] in message and "adamw_torch" in message.split(name, 1)[-1] else message
    if result["status"] != "valid":
        return f"{result['status']}: {reason}"
    extra = result["extra"]
    losses = extra["loss"]
    if len(losses) != 3 or not all(map(math.isfinite, losses)):
        return f"losses {losses}"
    # The rate is 0 in the first step, and too small for bfloat16 parameters in the second.
    if dtype == "float32" and not (losses[0] == losses[1] and 0 < abs(losses[2] - losses[1]) < 0.1):
        return f"losses {losses}"
    layers = LAYERS * sum(a * b for a, b in TARGETS) + NORMS * HIDDEN
    vocabulary = (extra["parameters"]["total"] - layers) // HIDDEN
    expected = state_bytes(name, vocabulary, {"float32": 4, "bfloat16": 2}[dtype])
    found = extra["memory_bytes"]["optimizer_state"]
    return "" if found == [expected] else f"states of {found} bytes, not {expected}"


def main():
    folder, values = Path(sys.argv[1]), json.loads(sys.argv[2])
    results = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    found = sorted((r["inputs"]["optim"], r["inputs"]["torch_dtype"]) for r in results)
    assert found == sorted((v, d) for v in values for d in ("bfloat16", "float32")), found
    complaints = [f"{r['inputs']['optim']}, {r['inputs']['torch_dtype']}: {complaint(r)}"
                  for r in results if complaint(r)]
    if complaints:
        sys.exit("\n".join(complaints))
    trained = sum(r["status"] == "valid" for r in results)
    print(f"{trained} measurements of {len(values) - len(ABSENT)} optimizers trained, "
          f"{len(results) - trained} of {len(ABSENT)} others said why not")


if __name__ == "__main__":
    main()
