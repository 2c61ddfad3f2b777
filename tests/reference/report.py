"""Golden files for reports: tables as pandas writes them, intervals as scipy computes them.

  report/results.json   measurements made up by hand, as result files would hold them
  report/*.csv          what ado's `show entities` would write for them: series that are put together here, from the
                        same figures, and written by pandas (what ado itself writes: ado_files.py)
  report/noise.json     Student's t, Welch's interval, a single run beside repeats, steps within two runs

Needs pandas, numpy and scipy. usage: python tests/reference/report.py
"""

import json
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

OUT = Path(__file__).resolve().parent / "report"
GENERATOR = "explicit_grid_sample_generator"
EXPERIMENT = "finetune_full_benchmark-v1.0.0"
LORA = "finetune_lora_benchmark-v1.0.0"
TARGETS = (  # in the order of ado's actuator
    ["is_valid", "dataset_tokens_per_second_per_gpu", "train_runtime", "dataset_tokens_per_second",
     "train_samples_per_second", "train_steps_per_second", "train_tokens_per_second",
     "train_tokens_per_gpu_per_second", "cpu_compute_utilization", "cpu_memory_utilization"]
    + [f"gpu_compute_utilization_{how}" for how in ("min", "avg", "max")]
    + [f"gpu_memory_utilization_{how}" for how in ("min", "avg", "max", "peak")]
    + [f"gpu_power_{unit}_{how}" for unit in ("watts", "percent") for how in ("min", "avg", "max")])
DIMENSIONS = ["model_name", "number_gpus", "gpu_model", "model_max_length", "batch_size", "num_train_epochs",
              "fast_kernels"]


def measured(seed, **more):
    """Figures that are awkward to print, without the peaks, which no row of this table has."""
    numbers = np.random.default_rng(seed).normal(50, 20, len(TARGETS))
    values = {name: float(abs(number)) for name, number in zip(TARGETS, numbers)}
    for absent in ("gpu_memory_utilization_peak", "train_tokens_per_second", "train_tokens_per_gpu_per_second"):
        del values[absent]
    return {**values, **more, "is_valid": 1}


# (entity in the order of DIMENSIONS, experiment, parameterization, samples). A dict: measured; "invalid"; "failed".
ENTITIES = [
    (("smollm2-135m", 0, None, 512, 1, 1.0, None), EXPERIMENT, {"max_steps": 8},
     [measured(1, train_runtime=2624.0, gpu_power_watts_min=0.0, cpu_compute_utilization=1e-05)]),
    (("smollm2-135m", 0, None, 512, 16, 1.0, None), EXPERIMENT, {"max_steps": 8},
     [measured(2, train_runtime=0.1 + 0.2, train_steps_per_second=1e16, cpu_memory_utilization=5e-324)]),
    (("smollm2-135m", 0, None, 512, 2, 1.0, None), EXPERIMENT, {"max_steps": 8},
     [measured(3), measured(4), measured(5)]),
    (("smollm2-135m", 0, None, 512, 4, 2.0, None), EXPERIMENT, {"max_steps": 8}, [measured(6), measured(7)]),
    (("granite-3.1-2b", 2, "NVIDIA-A100-80GB-PCIe", 1024, 8, 1.0, "['True', 'True', 'True']"), EXPERIMENT,
     {"max_steps": 8}, ["invalid"]),
    (("granite-3.1-2b", 2, "NVIDIA-A100-80GB-PCIe", 1024, 3, 1.0, None), EXPERIMENT, {"max_steps": 8}, ["invalid"]),
    (("granite-3.1-2b", 2, "NVIDIA-A100-80GB-PCIe", 2048, 8, 1.0, None), EXPERIMENT, {"max_steps": 8}, ["failed"]),
    (("a \"b\", c-batch_size.1", 1, "L40S", 512, 1, 1.0, None), EXPERIMENT, {"max_steps": 8}, [measured(8)]),
    (("smollm2-135m", 0, None, 512, 1, 1.0, None), LORA, {"r": 8}, [measured(9)]),
    (("smollm2-135m", 0, None, 512, 1, 1.0, None), LORA, {"r": 16}, [measured(10), measured(11)]),
]


def identifier(entity):
    return "-".join(f"{name}.{value}" for name, value in zip(DIMENSIONS, entity))


def experiment_id(experiment, parameterization):
    return "-".join([f"SFTTrainer.{experiment}"] + [f"{k}.{v}" for k, v in parameterization.items()])


def result_files():
    rows = []
    for number, (entity, experiment, parameterization, samples) in enumerate(ENTITIES):
        inputs = {**dict(zip(DIMENSIONS, entity)), "gradient_checkpointing": True, "stop_after_seconds": -1.0,
                  "torch_dtype": "bfloat16", **parameterization}
        if inputs["fast_kernels"]:
            inputs["fast_kernels"] = ["True"] * 3
        for sample, outcome in enumerate(samples, 1):
            second = len(rows)  # one after the other: the order of the tables
            status = outcome if isinstance(outcome, str) else "valid"
            rows.append({"key": f"{number:032x}", "sample": sample, "measurement": {
                "schema": "sftbench.measurement/1", "experiment": experiment,
                "experiment_id": experiment_id(experiment, parameterization), "entity_id": identifier(entity),
                "status": status,
                "reason": None if status == "valid" else {
                    "code": "OOM_GPU" if status == "invalid" else "DATA", "message": "made up",
                    "evidence": None, "log": None},
                "inputs": dict(sorted(inputs.items())),
                "measured": {"valid": outcome, "invalid": {"is_valid": 0}, "failed": {}}[status],
                "extra": {}, "environment": {"host": "h"}, "started_at": f"2026-11-21T07:38:{second:02d}.123Z",
                "finished_at": "2026-11-21T07:38:22.456Z", "command": "sftbench sweep space.yaml"}})
    return rows


def outcomes(samples):
    return [{"is_valid": 0} if s == "invalid" else s for s in samples if s != "failed"]


def cell(values, method):
    if not values:
        return None
    if method is None:  # the program's own choice, where ado shows a list
        return values[0] if len(values) == 1 else values[0] if len(set(values)) == 1 else float(np.median(values))
    if method == "list":
        return values[0] if len(values) == 1 else values
    return {"mean": np.mean, "median": np.median, "variance": np.var, "std": np.std, "min": min, "max": max}[method](values)


def suffix(method):
    return "" if method in (None, "list") else f"-{method}"


def in_order():
    """Entities, and within each of them experiments, as they were first measured."""
    entities = list(dict.fromkeys(e[0] for e in ENTITIES))
    experiments = list(dict.fromkeys(experiment_id(e[1], e[2]) for e in ENTITIES))
    return sorted(ENTITIES, key=lambda e: (entities.index(e[0]), experiments.index(experiment_id(e[1], e[2]))))


def target(method, name):
    rows = []
    for entity, experiment, parameterization, samples in in_order():
        results = outcomes(samples)
        if results:
            row = {"identifier": identifier(entity), "generatorid": GENERATOR,
                   "experiment_id": experiment_id(experiment, parameterization), **dict(zip(DIMENSIONS, entity))}
            row.update({t + suffix(method): cell([r[t] for r in results if t in r], method)
                        for t in TARGETS if any(t in r for r in results)})
            rows.append(pd.Series(row, dtype=object))
    pd.DataFrame(rows).reset_index(drop=True).to_csv(OUT / name)


def observed(name):
    rows = {}
    for entity, experiment, parameterization, samples in in_order():
        results = outcomes(samples)
        own = experiment_id(experiment, parameterization).removeprefix("SFTTrainer.")
        for t in TARGETS:
            if any(t in r for r in results):
                rows.setdefault(entity, {})[f"{own}-{t}"] = cell([r[t] for r in results if t in r], "list")
    frame = pd.DataFrame([pd.Series({**row, **dict(zip(DIMENSIONS, entity)), "identifier": identifier(entity),
                                     "generatorid": GENERATOR}, dtype=object) for entity, row in rows.items()])
    frame.reset_index(drop=True).to_csv(OUT / name)


def interval(ratio_of, a, b):
    """ratio_of: estimate, variance and degrees of freedom of a side's logarithm."""
    (ea, va, da), (eb, vb, db) = ratio_of(a), ratio_of(b)
    degrees = (va + vb) ** 2 / (va ** 2 / da + vb ** 2 / db)
    half = stats.t.ppf(0.975, degrees) * np.sqrt(va + vb)
    return {"ratio": np.exp(ea - eb), "low": np.exp(ea - eb - half), "high": np.exp(ea - eb + half)}


def by_steps(side):
    steps = np.array(side["step_seconds"])
    off = steps - steps.mean()
    r = max(0.0, (off[1:] * off[:-1]).sum() / (off ** 2).sum())
    independent = max(2.0, len(steps) * (1 - r) / (1 + r))
    return np.log(side["value"]), steps.var(ddof=1) / steps.mean() ** 2 / independent, independent - 1


# The median's variance over the mean's, of normal values: 1 of one or two, else pi / 2 in the limit.
def median_excess(n):
    return 1 if n < 3 else np.pi / 2 * (1 - 0.434 / n)


# By the formula of Welch, with medians in place of means.
def welch(a, b):
    values = [np.var(np.log(side), ddof=1) * median_excess(len(side)) / len(side) for side in (a, b)]
    degrees = sum(values) ** 2 / sum(v * v / (len(side) - 1) for v, side in zip(values, (a, b)))
    center = np.log(np.median(a) / np.median(b))
    half = stats.t.ppf(0.975, degrees) * np.sqrt(sum(values))
    return {"ratio": np.exp(center), "low": np.exp(center - half), "high": np.exp(center + half)}


def noise():
    random = np.random.default_rng(5)
    rows = {"t": [], "welch": [], "one_run_beside_repeats": [], "steps": []}
    for confidence in (0.5, 0.9, 0.95, 0.99):
        for degrees in (1, 1.5, 2, 2.7, 5, 11, 30, 120, 2500):
            rows["t"].append({"confidence": confidence, "degrees": degrees,
                              "t": stats.t.ppf(0.5 + confidence / 2, degrees)})
    for _ in range(8):
        a = list(random.normal(1000, 30, random.integers(2, 7)))
        b = list(random.normal(1050, 10, random.integers(2, 7)))
        rows["welch"].append({"a": a, "b": b, **welch(a, b)})
        one = float(random.normal(1000, 30))
        logs = np.log(b)
        half = stats.t.ppf(0.975, len(b) - 1) * logs.std(ddof=1) * np.sqrt(1 + median_excess(len(b)) / len(b))
        center = np.log(one / np.median(b))
        rows["one_run_beside_repeats"].append({"a": [one], "b": b, "ratio": np.exp(center), "low": np.exp(center - half),
                                               "high": np.exp(center + half)})
        sides = []
        for _ in range(2):
            steps = 0.5 + 0.01 * np.convolve(random.normal(0, 1, 24), [1, 0.6], "valid")
            sides.append({"value": float(100 / steps.mean()), "step_seconds": list(steps)})
        rows["steps"].append({"a": sides[0], "b": sides[1], **interval(by_steps, *sides)})
    return rows


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    rows = ",\n".join(json.dumps(row) for row in result_files())
    (OUT / "results.json").write_text("[\n" + rows + "\n]\n")
    target(None, "target.csv")
    for method in ("list", "mean", "median", "variance", "std", "min", "max"):
        target(method, f"target-{method}.csv")
    observed("observed.csv")
    text = ",\n".join(f'"{k}": [\n' + ",\n".join(json.dumps(r) for r in v) + "\n]" for k, v in noise().items())
    (OUT / "noise.json").write_text("{\n" + text + "\n}\n")
