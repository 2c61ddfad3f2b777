"""Golden files for catalogue and space: what Python makes of the same input.

  yaml_scalars.json      plain YAML scalars as PyYAML's safe loader reads them
  python_str.json        str() of numbers, as ado's identifiers show them
  ranges.json            ranges in exact decimal arithmetic: the values below the upper bound
  range_values.json      single values of ranges with fractions, rounded as ado rounds them
  shuffles.json          places in random walks, by a second implementation of src/request/space/shuffle.h
  parameter_counts.json  parameters of config/models.yaml as transformers builds them (on the meta device)

Needs PyYAML, torch and transformers. usage: python tests/reference/space.py
"""

import json
import math
import random
from decimal import Decimal
from pathlib import Path

import yaml

HERE = Path(__file__).resolve().parent
OUT = HERE / "space"
ROOT = HERE.parents[1]


def write(name, value):
    rows = ",\n".join(json.dumps(row) for row in value)
    (OUT / name).write_text("[\n" + rows + "\n]\n")


def yaml_scalars():
    texts = """no No NO nO yes Yes YES on On ON off Off OFF true True TRUE tRue false y n null Null NULL ~ nil None
    0 1 -1 +1 007 08 0o17 017 -017 0x1F 0X1F 0x 0b101 0b2 0b 1_000 _1 1__0 0_7 12e3 1e5 1e-5 1.0e-5 1.0e5 1.e+3 1.
    .5 -.5 +.5 .e1 . -. 1.5 -1.5 +1.5 1_0.5 1.5_0 1.5e+3 1.5E-3 1.5e3 .inf -.inf +.inf .Inf .INF .iNf .nan .NaN -.nan
    1:30 1:30:00 -1:30 1:60 1:234 0:30 01:30 1:3 190:20:30 1:30.5 2.8 2.8.2 3.0.0.1 2.1.2 0.1.2 bfloat16 - -- +- 1- 1+1
    99999999999 9223372036854775807 -9223372036854775807 0.0 -0.0 00 0.30 1.7976931348623157e+308 4.9e-324
    [ ] smollm2-135m NVIDIA-H100-PCIe 1,000 =""".split()
    texts = [t for t in texts if t not in "[ ]".split()]
    rows = []
    for text in texts:
        if ":" in text and "." in text:  # sexagesimal floats are of no use here and not read
            continue
        try:
            value = yaml.safe_load("- " + text)[0] if text not in ("-",) else "-"
        except yaml.YAMLError:
            continue
        if isinstance(value, float) and not math.isfinite(value):
            rows.append({"text": text, "type": "nonfinite", "value": repr(value)})
        elif value is None or isinstance(value, (bool, int, float, str)):
            rows.append({"text": text, "type": type(value).__name__, "value": value})
    return rows


def python_str():
    random.seed(7)
    numbers = [0.0, -0.0, 1.0, 2.0, 1e-5, 1.5e-5, 1e-4, 0.00012, 1e15, 1e16, 1.5e16, 123456789012345680.0, 0.1, 0.25,
               1 / 3, 1e22, 1e100, 1e-100, -1e-5, -2.5, 65504.0, 3.4028234663852886e38, 5e-324, 100.0, 1e5]
    numbers += [random.uniform(-1, 1) * 10 ** random.randint(-20, 25) for _ in range(200)]
    return [{"value": n, "str": str(n)} for n in numbers]


def ranges():
    random.seed(11)
    rows = []
    cases = [("0.0", "1.7", "0.1"), ("0", "1", "0.25"), (".1", ".4", ".1"), ("1", "9", "2"), ("1", "10", "3")]
    for _ in range(120):
        step = random.choice(["0.1", "0.2", "0.25", "0.3", "0.7", "0.01"])
        low = Decimal(random.randint(0, 30)) / 10
        rows_wanted = random.randint(1, 40)
        high = low + Decimal(step) * rows_wanted + Decimal(random.choice(["0", "0", "0.005"]))
        cases.append((str(low), str(high), step))
    for low, high, step in cases:
        values, at = [], Decimal(low)
        while at < Decimal(high):
            values.append(at)
            at += Decimal(step)
        whole = all("." not in t for t in (low, high, step))
        rows.append({"lower": json.loads(low.replace(".", "0.", 1) if low[0] == "." else low),
                     "upper": json.loads(high.replace(".", "0.", 1) if high[0] == "." else high),
                     "interval": json.loads(step.replace(".", "0.", 1) if step[0] == "." else step),
                     "count": len(values),
                     "first": int(values[0]) if whole else float(values[0]),
                     "last": int(values[-1]) if whole else float(values[-1])})
    return rows


def range_values():
    random.seed(17)
    rows = []
    for _ in range(150):
        low = random.choice([0.0, 0.1, -1.0, 1e-7, 123456.7, 999999.3])
        step = random.choice([0.1, 0.3, 0.7, 1e-3, 1 / 3, 2.5, 1.0])
        index = random.randrange(10 ** random.randint(1, 7))
        rows.append({"lower": low, "interval": step, "index": index, "str": str(round(low + index * step, 10))})
    return rows


def shuffled(index, count, seed):
    word = (1 << 64) - 1

    def mixed(value):
        value = (value + 0x9E3779B97F4A7C15) & word
        value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & word
        value = (value ^ (value >> 27)) * 0x94D049BB133111EB & word
        return value ^ (value >> 31)

    bits = max(2, (count - 1).bit_length())
    half = (bits + 1) // 2
    while True:
        left, right = index >> half, index & ((1 << half) - 1)
        for step in range(8):
            left, right = right, left ^ (mixed(right ^ mixed(seed + step)) & ((1 << half) - 1))
        index = left << half | right
        if index < count:
            return index


def shuffles():
    random.seed(13)
    rows = []
    for count in (1, 2, 3, 12, 64, 65, 4097, 10**9 + 7, 2**61, 2**62 - 1):
        for _ in range(5):
            index, seed = random.randrange(count), random.getrandbits(40)
            rows.append({"index": index, "count": count, "seed": seed, "image": shuffled(index, count, seed)})
    return rows


def parameter_counts():
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText

    rows = []
    models = yaml.safe_load((ROOT / "config" / "models.yaml").read_text())["models"]
    for name, facts in models.items():
        config = facts.get("config")
        if config is None:
            continue
        config = dict(config)
        auto = AutoModelForImageTextToText if "vision_config" in config else AutoModelForCausalLM
        with torch.device("meta"):
            model = auto.from_config(AutoConfig.for_model(config.pop("model_type"), **config))
        # Tied weights are one parameter object, which parameters() yields once.
        rows.append({"model": name, "parameters": sum(p.numel() for p in model.parameters())})
    return rows


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    write("yaml_scalars.json", yaml_scalars())
    write("python_str.json", python_str())
    write("ranges.json", ranges())
    write("range_values.json", range_values())
    write("shuffles.json", shuffles())
    write("parameter_counts.json", parameter_counts())
