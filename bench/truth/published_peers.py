#!/usr/bin/env python3
"""Programs that answer "can I fine-tune this" on the rows of published.csv: usage: published_peers.py SFTBENCH [PEER=PYTHON]...

Peers: canifinetune, ftuneai, fitcheck-llm, kavier, coastline (whose time is kavier's, so its verdict is asked). PYTHON is that of a
virtual environment, else the peer is looked for on PATH. Each answers as it is shipped, with the `config.json` of `sftbench
models`: nothing is fetched. canifinetune's safety margin is no memory, and is taken off.

The rule of thumb: 6 FLOPs for each parameter and token, 4 with adapters, at 40 % of the peak of all GPUs. 16 bytes of a parameter
(18 with float32), 2 with adapters, 0.5 in 4 bit, over the GPUs that shard. 34 bytes of activations for each token, layer and unit
of width (2 with checkpointing, and one layer), 6 bytes of a logit. A cell has the median and p90 of errors in percent, in brackets
those of sftbench on the same rows, and the number of rows.
"""
import collections
import csv
import datetime
import functools
import json
import math
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import published

PEERS = {"canifinetune": "canifinetune", "ftuneai": "ftune", "fitcheck-llm": "fitcheck", "kavier": "kavier",
         "coastline": "coastline"}  # programs on PATH
LINEAR = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj".split()


def rule(asked):
    full, config, tokens = asked["method"] == "full", asked["config"], asked["batch"] * asked["padded_to"]
    seconds = (6 if full else 4) * asked["parameters"] * asked["tokens"] / (0.4 * asked["flops_per_s"] * asked["gpus"])
    states = 18 if asked["mixed"] else {"full": 16, "lora": 2, "qlora": 0.5}[asked["method"]]
    width, layers, words = config["hidden_size"], config["num_hidden_layers"], config["vocab_size"]
    units = 2 * layers + 34 if asked["checkpointing"] else 34 * layers
    shards = asked["gpus"] if asked["strategy"] in ("FULL_SHARD", "ZERO3") else 1
    gib = (states * asked["parameters"] / shards + tokens * (units * width + 6 * words)) / 2**30
    return (gib if tokens else None), gib <= asked["gib"], seconds or None


def parameters_of(config):
    width, share = config["hidden_size"], config["num_key_value_heads"] / config["num_attention_heads"]
    layer = width * (2 * width * (1 + share) + 3 * config["intermediate_size"])
    return int(config["num_hidden_layers"] * layer + config["vocab_size"] * width * (1 if config["tie_word_embeddings"] else 2))


def question(row, gpus, known):
    """What a peer is asked, or nothing where the row does not say it."""
    method = {"gptq-lora": "qlora"}.get(row["method"], row["method"])
    if (not known or "hidden_size" not in known["config"] or method not in ("full", "lora", "qlora") or row["batch"] == ""
            or row["accumulation"] == "" or row["strategy"] not in published.STRATEGY or row["gpu"] not in gpus):
        return None
    gpu, mixed = gpus[row["gpu"]], method == "full" and "autocast" in row["precision"]
    batch, accumulation, count, nodes, length, padded, rank = (
        int(row[key] or 0) for key in ("batch", "accumulation", "gpus", "nodes", "length", "padded_to", "rank"))
    return {"model": row["model"], "twin": row["twin"], "config": known["config"], "exact": known["parameters"],
            "parameters": known["parameters"] or parameters_of(known["config"]), "gpu": row["gpu"], "gib": gpu["memory_GiB"],
            "flops_per_s": 1e12 * (gpu["bfloat16_TFLOP/s"] or gpu["float16_TFLOP/s"]), "mixed": mixed, "method": method,
            "targets": LINEAR if re.search("all-linear|w1|\\*", row["targets"]) else row["targets"].split(), "rank": rank,
            "gpus": count, "nodes": nodes, "batch": batch, "accumulation": accumulation, "length": length,
            "dtype": "float32" if mixed else row["precision"].partition(" ")[0] or "bfloat16", "strategy": row["strategy"],
            "eager": row["attention"] == "eager", "optimizer": row["optimizer"] or "AdamW",
            "checkpointing": row["checkpointing"] == "true", "tokens": batch * accumulation * count * length,
            "padded_to": padded if row["checkpointing"] != "unknown" else 0}


def ours(row, command, gpus, models):
    """[(what, error, inside)] and whether it is said to fit."""
    asked = functools.cache(lambda length: published.ask(command, row, length))
    try:
        if published.refusal(row, gpus, models):
            return [], None
        said = published.verdict(row, asked)
        return [each[1:4] for each in published.residuals(row, asked)], said and said[2] != "oom"
    except ValueError:
        return [], None


def group_of(row, what):
    small, bits = re.search("T4|V100|A10G?$|L4|GeForce|RTX|TITAN", row["gpu"]), 4 if re.search("q|4", row["method"]) else 16
    if what == "memory":
        return "several GPUs" if row["gpus"] != "1" else "one small GPU" if small else f"one A100, H100, {bits} bit"
    if row["nodes"] != "1" or "fp8" in row["precision"]:
        return "several nodes" if row["nodes"] != "1" else "float8"
    place = "small GPUs" if small or row["gpu"] == "L40S" else "A100, H100"
    return f"{place}, {'to' if int(row['length']) <= 1024 else 'beyond'} 1,024 tokens"


def truths(row):
    if row["peak_memory_gib"] and row["padded_to"]:
        yield "memory", float(row["peak_memory_gib"])
    if row["length"] and (row["tokens_per_second"] or row["seconds_per_step"]):
        tokens = math.prod(int(row[key] or 0) for key in ("batch", "accumulation", "gpus", "length"))
        yield "time", tokens / float(row["tokens_per_second"]) if row["tokens_per_second"] else float(row["seconds_per_step"])


def shares(errors):
    sizes = sorted(abs(error) for error, _ in errors)
    return f"{100 * statistics.median(sizes):.0f} / {100 * sizes[math.ceil(0.9 * len(sizes)) - 1]:.0f}" if sizes else "-"


def report(rows, answers):
    seen, verdicts = collections.defaultdict(list), collections.defaultdict(collections.Counter)
    for at, (row, asked, mine, fits) in enumerate(rows):
        held, died = "other" if row["held_out"] == "false" else "held out", row["died"] == "true"
        own, said = {what: (error, inside) for what, error, inside in mine}, {"sftbench": fits}
        for what, measured in truths(row):
            values = {name: given[at][2 if what == "time" else 0] for name, given in answers.items()}
            seen[held, what, group_of(row, what)].append((
                own.get(what), {name: (value / measured - 1, None) for name, value in values.items() if value}))
        if asked and asked["padded_to"] and (row["peak_memory_gib"] or died):
            said |= {name: given[at][1] for name, given in answers.items()}
        for name, runs in said.items():
            if runs is not None:
                verdicts[name][held, died, bool(runs)] += 1
    names = [name for name in answers if any(name in given for found in seen.values() for _, given in found)]
    print(f"\n| sources, rows | | sftbench | inside | {' | '.join(names)} |\n|---|--:|{'---|' * (len(names) + 2)}")
    for key, found in sorted(seen.items()):
        mine = [own for own, _ in found if own]
        inside = f"{100 * sum(held for _, held in mine) / len(mine):.0f} %" if mine else "-"
        cells = []
        for name in names:
            both = [(given[name], own) for own, given in found if name in given]
            same = shares([own for _, own in both if own])
            cells.append(f"{shares([peer for peer, _ in both])} ({same}) of {len(both)}" if both else "-")
        print(f"| {', '.join(key)} | {len(found)} | {shares(mine)} of {len(mine)} | {inside} | {' | '.join(cells)} |")
    print("\n| | false fits of died, held out | other | false ooms of ran, held out | other |\n|---|--:|--:|--:|--:|")
    for name, counts in verdicts.items():
        count = lambda died: (f"{counts[held, died, died]} of {counts[held, died, True] + counts[held, died, False]}"
                              for held in ("held out", "other"))
        print(f"| {name} | {' | '.join([*count(True), *count(False)])} |")


def main():
    if len(sys.argv) < 2 or not all(word.partition("=")[0] in PEERS and "=" in word for word in sys.argv[2:]):
        sys.exit(__doc__)
    sftbench, pythons = sys.argv[1], dict(word.split("=", 1) for word in sys.argv[2:])
    for name, program in PEERS.items():
        if name not in pythons and shutil.which(program):
            pythons[name] = Path(shutil.which(program)).read_text().splitlines()[0].removeprefix("#!")
    ask = lambda *words: json.loads(published.run(sftbench, *words, "--format", "json").stdout)
    gpus = {each["gpu"]: each for each in ask("gpus")}
    hub = {each["weights"].lower(): each["model"] for each in ask("models")}
    own = {path.parent.name: path for path in published.HERE.glob("models/*/config.json")}

    @functools.cache
    def known(name):
        if name in own:
            return {"config": json.loads(own[name].read_text()), "parameters": None}
        return ask("models", name) if name in hub.values() else None

    rows = []
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
        print(published.run("bash", published.HERE / "model_map.sh").stdout, file=config, flush=True)
        command = [sftbench, "predict", "--format", "json", "--config", config.name]
        for row in csv.DictReader(open(published.HERE / "published.csv")):
            plain = re.sub("^unsloth/|-bnb-4bit$|-unsloth", "", row["model"]).lower()
            shapes = re.sub(".*/|-chat$|-instruct$", "", row["model"].lower())  # of the same shapes
            row["targets"] = "all-linear" if "mlp" in row["targets"] else row["targets"]  # litgpt's, whose head has an adapter too
            row |= {"asked": "", "twin": shapes if known(shapes) else next(
                (model for hub_id, model in hub.items() if plain in (hub_id, hub_id.split("/")[-1])), shapes)}
            rows.append((row, question(row, gpus, known(row["twin"])), *ours(row, command, gpus, {*hub.values(), *own})))
    questions = [asked for _, asked, *_ in rows]
    answers = {"rule of thumb": [rule(asked) if asked else (None, None, None) for asked in questions]}
    versions = [str(datetime.date.today()), published.run(sftbench, "--version").stdout.strip()]
    for name, python in pythons.items():
        done = subprocess.run([python, published.HERE / "peer_answers.py", name], input=json.dumps(questions), text=True,
                              capture_output=True)
        if done.returncode:
            sys.exit(f"{name} at {python}: {done.stderr.strip().splitlines()[-1]}")
        version, answers[name] = json.loads(done.stdout)
        versions.append(f"{name} {version}")
    print(*versions, sep=", ")
    report(rows, answers)


if __name__ == "__main__":
    main()
