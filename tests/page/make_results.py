#!/usr/bin/env python3
"""Writes a directory of simulated results, to look at the report with and to time it.

usage: make_results.py FOLDER [--count N] [--repeated N] [--series N] [--hostile]

Every file is marked as simulated: its figures come from a few lines of arithmetic below and say nothing
about any machine. The same arguments always give the same files. --repeated measures the first N
configurations three times. --series gives the first N valid ones a long loss curve, evaluations and samples
over time; a sample that is far off stands among them, and of the last but one of these files a byte is wrong,
the last is gone. --hostile adds texts that would break a
page that does not escape them, and files that are no results.
"""

import argparse
import gzip
import hashlib
import itertools
import json
import math
import pathlib
import random

import xxhash

MODELS = {
    "smollm2-135m": 0.135,
    "granite-3.1-2b": 2.5,
    "llama3.2-1b": 1.24,
    "llama3.1-8b": 8.03,
    "mistral-7b-v0.1": 7.24,
    "llama2-70b": 69.0,
    "granite-20b-v2": 20.1,
    "mixtral-8x7b-instruct-v0.1": 46.7,
}
GPUS = {
    "NVIDIA-A100-SXM4-80GB": (312, 80),
    "NVIDIA-H100-80GB-HBM3": (989, 80),
    "L40S": (362, 48),
}  # TFLOP/s, GiB
TUNINGS = {
    "finetune_full_benchmark-v1.0.0": 16,
    "finetune_lora_benchmark-v1.0.0": 2.1,
}  # bytes per parameter
LENGTHS = [512, 1024, 2048, 4096, 8192]
BATCHES = [1, 2, 4, 8, 16, 32, 64, 128]
GIB = 2**30
HOSTILE = (
    "</script><script>window.broken = 1</script> \"quoted\" 'single' &amp; <b>bold</b> \u2028 \\u0041 ]]>"
)


def cells():
    """Every configuration; what a reader wants to compare varies fastest."""
    slowly = itertools.product(
        [4, 1],
        ["news-tokens-16384plus-entries-4096", "news-chars-1024-entries-4096"],
        ["bfloat16", "float16"],
        [True, False],
        [8, 1, 4, 2, 16],
    )
    for accumulation, dataset, dtype, checkpointing, gpus in slowly:
        for tuning, gpu, model, length, batch in itertools.product(TUNINGS, GPUS, MODELS, LENGTHS, BATCHES):
            yield gpus, checkpointing, tuning, dtype, gpu, model, length, batch, dataset, accumulation


def simulate(cell, rng):
    gpus, checkpointing, tuning, _, gpu, model, length, batch, _, accumulation = cell
    billions, (tflops, memory_gib) = MODELS[model], GPUS[gpu]
    per_device = batch / gpus
    if per_device < 1 or per_device % 1:
        return {
            "status": "invalid",
            "code": "RULE_1",
            "message": f"batch_size {batch} is not divisible by number_gpus {gpus}",
        }
    states = billions * 1e9 * TUNINGS[tuning] / gpus
    activations = per_device * length * math.sqrt(billions) * (3e4 if checkpointing else 4e5)
    peak = (states + activations) * 1.07 + 0.6 * GIB
    if peak > memory_gib * GIB:
        tried = activations / GIB / 7
        return {
            "status": "invalid",
            "code": "OOM_GPU",
            "message": f"the memory of {gpu} does not suffice",
            "evidence": f"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {tried:.2f} GiB",
        }
    if rng.random() < 0.004:
        code, message = rng.choice(
            [
                ("NCCL", "communication between GPUs failed"),
                ("HANG", "no step for 600 s; rank 0 stood at step 3"),
                ("INTERNAL", "rank 1 ended by signal 11 (SIGSEGV)"),
            ]
        )
        return {
            "status": "failed",
            "code": code,
            "message": message,
            "evidence": f"[rank1] {message}, pid {rng.randrange(400, 9000)}",
        }
    saturation = per_device * length / (per_device * length + 3000)
    mfu = 0.52 * saturation * (0.78 if checkpointing else 1) * gpus**-0.05 * rng.gauss(1, 0.015)
    flops_per_token = billions * 1e9 * (4.2 if "lora" in tuning else 6)
    rate = mfu * tflops * 1e12 * gpus / flops_per_token
    return {
        "status": "valid",
        "rate": rate,
        "useful": rate * rng.uniform(0.9, 1),
        "peak": peak,
        "mfu": mfu,
        "memory_gib": memory_gib,
        "flops_per_token": flops_per_token,
        "tflops": tflops,
    }


def measurement(cell, number, rng):
    gpus, checkpointing, tuning, dtype, gpu, model, length, batch, dataset, accumulation = cell
    inputs = {
        "batch_size": batch,
        "dataset_id": dataset,
        "distributed_backend": "FSDP",
        "enable_roce": False,
        "fast_kernels": None,
        "fast_moe": 0,
        "flash_attn": True,
        "gpu_model": gpu,
        "gradient_accumulation_steps": accumulation,
        "gradient_checkpointing": checkpointing,
        "max_steps": 10,
        "model_max_length": length,
        "model_name": model,
        "number_gpus": gpus,
        "number_nodes": 1,
        "optim": "adamw_torch",
        "torch_dtype": dtype,
        "backend": "simulate",
    }
    result = simulate(cell, rng)
    key = hashlib.sha256(json.dumps([tuning, inputs]).encode()).hexdigest()[:32]
    minute, second = divmod(number * 7 % 3600, 60)
    stamp = f"2026-11-{1 + number // 8640 % 20:02}T{number // 360 % 24:02}:{minute:02}:{second:02}.000Z"
    document = {
        "schema": "sftbench.measurement/1",
        "experiment": tuning,
        "experiment_id": f"SFTTrainer.{tuning}",
        "entity_id": "-".join(
            f"{k}.{inputs[k]}"
            for k in ("model_name", "number_gpus", "gpu_model", "model_max_length", "batch_size")
        ),
        "status": result["status"],
        "reason": None,
        "inputs": dict(sorted(inputs.items())),
        "measured": {},
        "extra": {},
        "environment": environment(gpu, gpus, number),
        "started_at": stamp,
        "finished_at": stamp,
        "command": f"sftbench run --backend simulate --experiment {tuning} "
        + " ".join(
            f"--set {k}={inputs[k]}"
            for k in ("model_name", "number_gpus", "gpu_model", "model_max_length", "batch_size")
        ),
    }
    if result["status"] == "valid":
        document["measured"], document["extra"] = figures(result, gpus, length, batch, accumulation, rng)
    else:
        document["measured"] = {"is_valid": 0} if result["status"] == "invalid" else {}
        log = None if result["code"].startswith("RULE") else f"results/{tuning}/{key}.log"
        document["reason"] = {
            "code": result["code"],
            "message": result["message"],
            "evidence": result.get("evidence"),
            "log": log,
        }
    return key, document


def figures(result, gpus, length, batch, accumulation, rng):
    rate, useful = result["rate"], result["useful"]
    steps = 10
    tokens = steps * batch * accumulation * length
    runtime = tokens / rate
    peak_percent = 100 * result["peak"] / GIB / result["memory_gib"]
    watts = 120 + 500 * result["mfu"] + rng.gauss(0, 4)
    measured = {
        "gpu_compute_utilization_min": 93 + rng.random(),
        "gpu_compute_utilization_avg": 95 + rng.random(),
        "gpu_compute_utilization_max": 97 + rng.random(),
        "gpu_memory_utilization_min": peak_percent * 0.94,
        "gpu_memory_utilization_avg": peak_percent * 0.96,
        "gpu_memory_utilization_max": peak_percent * 0.98,
        "gpu_memory_utilization_peak": peak_percent,
        "gpu_power_watts_min": watts * 0.97,
        "gpu_power_watts_avg": watts,
        "gpu_power_watts_max": watts * 1.03,
        "gpu_power_percent_min": watts / 7.2,
        "gpu_power_percent_avg": watts / 7,
        "gpu_power_percent_max": watts / 6.8,
        "cpu_compute_utilization": 99 + rng.gauss(0, 1),
        "cpu_memory_utilization": 7 + rng.random(),
        "train_runtime": runtime,
        "train_samples_per_second": rate / length,
        "train_steps_per_second": steps / runtime,
        "train_tokens_per_second": rate,
        "train_tokens_per_gpu_per_second": rate / gpus,
        "dataset_tokens_per_second": useful,
        "dataset_tokens_per_second_per_gpu": useful / gpus,
        "is_valid": 1,
    }
    step_seconds = [runtime / steps * rng.gauss(1, 0.01) for _ in range(steps)]
    extra = {
        "tokens": {
            "padded": tokens,
            "dataset": int(tokens * useful / rate),
            "loss_bearing": int(tokens * 0.8),
        },
        "token_rates": {
            "padded_tokens_per_second": rate,
            "dataset_tokens_per_second": useful,
            "loss_bearing_tokens_per_second": rate * 0.8,
            "padded_tokens_per_second_per_device": rate / gpus,
        },
        "warmup_steps": 0,
        "loss": [2.2 - 0.03 * i + rng.gauss(0, 0.02) for i in range(steps)],
        "grad_norm": [1 + rng.random() for _ in range(steps)],
        "learning_rate": [1e-5 * (1 - i / steps) for i in range(steps)],
        "step_seconds": step_seconds,
        "parameters": {"total": 1000, "trainable": 1000},
        "compute_dtype": "bfloat16",
        "padding": "longest",
        "warnings": [],
        "tokenizer": "builtin",
        "mfu": {
            "value": result["mfu"],
            "model_flops_per_token": result["flops_per_token"],
            "peak_flops_per_device": result["tflops"] * 1e12,
            "achieved_flops_per_device": result["mfu"] * result["tflops"] * 1e12,
            "llmforge_value": result["mfu"] * 0.9,
            "reason": None,
        },
        "memory_bytes": {
            "device_peak_allocated": [int(result["peak"] * 0.95)] * gpus,
            "device_peak_reserved": [int(result["peak"])] * gpus,
            "host_peak_rss": [3 * GIB + rng.randrange(GIB)] * gpus,
        },
        "gpu_energy_joules": [watts * runtime] * gpus,
        "system_samples": 14,
        "startup_seconds": {
            "weights": 4 + rng.random(),
            "tokenize": 1 + rng.random(),
            "first_step": 15 + rng.random(),
        },
    }
    return measured, extra


def environment(gpu, gpus, number):
    return {
        "version": "0.1.0",
        "commit": "000000000000",
        "build_type": "Release",
        "compiler": "GCC 12.2.0",
        "sanitizers": None,
        "libtorch": None,
        "blas": None,
        "onednn": None,
        "cuda": None,
        "nccl": None,
        "driver": None,
        "gpus": [gpu] * gpus,
        "threads": 16,
        "cpu": "simulated",
        "cores": 16,
        "memory_bytes": 128 * GIB,
        "kernel": "Linux",
        "host": f"simulated-{number % 3}",
        "launcher": "none",
        "backend": "simulate",
    }


def write(folder, name, text):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


SERIES_STEPS = 500
SERIES_SAMPLES = 900
PEAK_AT, PEAK_WATTS, LOSS_PEAK_AT, LOSS_PEAK = 333, 777.0, 321, 9.5  # single readings that nobody may lose
POWER_LIMIT_WATTS = 800.0


def add_series(folder, key, document, rng):
    """A long loss curve, evaluations, and what samplers read, in place of the short ones."""
    extra, gpus = document["extra"], document["inputs"]["number_gpus"]
    extra["loss"] = [1.5 + math.exp(-i / 90) + rng.gauss(0, 0.02) for i in range(SERIES_STEPS)]
    extra["loss"][LOSS_PEAK_AT] = LOSS_PEAK
    extra["loss"][7] = None  # was not finite
    extra["warmup_steps"] = 20
    extra["step_seconds"] = [rng.gauss(0.4, 0.01) for _ in range(SERIES_STEPS)]
    steps = list(range(100, SERIES_STEPS + 1, 100))
    extra["evaluation"] = {"steps": steps, "losses": [1.6 + math.exp(-s / 90) for s in steps], "loss": 1.6}
    ends = list(itertools.accumulate(extra["step_seconds"]))
    times = [-2 + i * ends[-1] / SERIES_SAMPLES for i in range(SERIES_SAMPLES)]
    peak = document["measured"]["gpu_memory_utilization_peak"]
    columns = []
    for gpu in range(gpus):
        watts = [rng.gauss(500 + 10 * gpu, 5) for _ in times]
        watts[PEAK_AT] = PEAK_WATTS if gpu == 0 else watts[PEAK_AT]
        columns.append(
            {
                "utilization_percent": [97 - gpu] * len(times),
                "memory_percent": [peak * min(1, 0.4 + i / 100) for i in range(len(times))],
                "power_watts": watts,
                "power_limit_watts": [POWER_LIMIT_WATTS] * len(times),
            }
        )
    series = {
        "schema": "sftbench.series/1",
        "begin_unix_s": 0,
        "warmup_steps": 20,
        "steps": {"begin_s": [0.0, *ends[:-1]], "end_s": ends},
        "processes": [
            {
                "node": 0,
                "time_s": times,
                "cpu_seconds": [7 + 3 * (t + 2) for t in times],  # three cores
                "memory_percent": [5.0] * len(times),
                "host_memory_percent": [9.0] * len(times),
                "gpus": columns,
            }
        ],
    }
    packed = gzip.compress(json.dumps(series).encode(), mtime=0)
    extra["series"] = {
        "file": f"{key}.series.json.gz",
        "bytes": len(packed),
        "digest": xxhash.xxh3_128_hexdigest(packed),
        "samples": len(times),
    }
    path = folder / document["experiment"] / extra["series"]["file"]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(packed)
    return path


def write_measurement(folder, cell, number, sample, rng, series=False):
    """The path of its series, if it has one."""
    key, document = measurement(cell, number, rng)
    name = f"{key}.json" if sample == 1 else f"{key}.{sample}.json"
    path = None
    if series and document["status"] == "valid":
        path = add_series(folder, key, document, random.Random(number))
    write(folder, f"{document['experiment']}/{name}", json.dumps(document, indent=2) + "\n")
    return path


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--repeated", type=int, default=0)
    parser.add_argument("--series", type=int, default=0)
    parser.add_argument("--hostile", action="store_true")
    options = parser.parse_args()
    rng = random.Random(42)
    number = 0
    series = []
    for sample in itertools.count(
        1
    ):  # once through all configurations, then through their second samples, ...
        for cell in itertools.islice(cells(), options.count - number):
            path = write_measurement(options.folder, cell, number, sample, rng, len(series) < options.series)
            series += [path] if path else []
            number += 1
        if number >= options.count:
            break
    for sample in (2, 3):
        for cell in itertools.islice(cells(), options.repeated):
            write_measurement(options.folder, cell, number, sample, rng)
            number += 1
    if len(series) > 3:
        damaged = bytearray(series[-2].read_bytes())
        damaged[-9] ^= 1
        series[-2].write_bytes(damaged)
        series[-1].unlink()
    if options.hostile:
        key, document = measurement(next(cells()), number, rng)
        document["inputs"]["model_name"] = HOSTILE
        document["entity_id"] = HOSTILE
        document["command"] = HOSTILE
        document["environment"]["host"] = HOSTILE
        document.update(
            status="failed",
            measured={},
            extra={},
            reason={"code": "INTERNAL", "message": HOSTILE, "evidence": HOSTILE, "log": HOSTILE},
        )
        write(
            options.folder, f"{document['experiment']}/hostile.json", json.dumps(document, indent=2) + "\n"
        )
        write(options.folder, f"{document['experiment']}/cut.json", json.dumps(document)[:300])
        write(options.folder, f"{document['experiment']}/foreign.json", "[1, 2, 3]\n")


if __name__ == "__main__":
    main()
