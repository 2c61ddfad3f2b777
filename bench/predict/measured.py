#!/usr/bin/env python3
"""`sftbench predict` against runs on this machine's CPUs: python3 measured.py SFTBENCH [GB/s]

Trains a model on two ranks of one thread each with every strategy and prints what was predicted and what was
measured: bytes sent, bytes held, seconds of a step. What prediction needs to know of the machine is measured
beforehand: the rate at which a rank computes by two runs of one rank side by side (two ranks share the memory's
bandwidth, too); GB/s and latency of Gloo on loopback by bench/collectives. With a rank on every core there is none
left for Gloo's transfers: they are predicted with --no-overlap.
"""
import json
import os
import statistics
import subprocess
import sys
import tempfile

RUN = ["--experiment", "finetune_full_benchmark-v1.0.0", "--set", "model_name=smollm2-135m", "--set", "number_gpus=0",
       "--set", "dataset_id=news-chars-512-entries-256", "--set", "model_max_length=256",
       "--set", "torch_dtype=bfloat16", "--padding", "max_length"]
# Strategy and micro-batches.
RUNS = [("DDP", 1), ("FULL_SHARD", 1), ("FULL_SHARD", 2), ("SHARD_GRAD_OP", 1), ("SHARD_GRAD_OP", 2)]
LATENCY_US = 300
STEPS = 3


def settings(batch, accumulation, strategy=None):
    chosen = ["--set", f"batch_size={batch}", "--set", f"gradient_accumulation_steps={accumulation}"]
    if strategy is None:
        return chosen
    if strategy == "DDP":
        return chosen + ["--ranks", "2", "--set", "distributed_backend=DDP"]
    return chosen + ["--ranks", "2", "--set", "distributed_backend=FSDP", "--set", f"fsdp_sharding_strategy={strategy}"]


def start_run(program, arguments, folder):
    command = [program, "run", *RUN, *arguments, "--weights", "random", "--threads", "1", "--set",
               f"max_steps={STEPS}", "-o", folder, "--format", "json", "--no-progress", "--log-level", "warn"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def result_of(process):
    out = process.communicate()[0]
    assert process.returncode == 0, f"{process.args} ended with {process.returncode}"
    return json.loads(out)["extra"]


def predict(program, arguments, rate, gb_per_s):
    command = [program, "predict", *RUN, *arguments, "--flops-per-s", str(rate), "--inside-gb-per-s", str(gb_per_s),
               "--inside-latency-us", str(LATENCY_US), "--no-overlap", "--format", "json"]
    return json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)


def seconds_of(extra):
    return statistics.median(extra["step_seconds"][1:])


def main():
    program, gb_per_s = sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 1.1
    os.environ.update(OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
    percent = lambda predicted, measured: f"{100 * (predicted / measured - 1):+.1f} %"
    with tempfile.TemporaryDirectory() as folder:
        alone = [start_run(program, settings(1, 1), f"{folder}/alone{i}") for i in range(2)]
        step_s = max(seconds_of(result_of(process)) for process in alone)
        rate = predict(program, settings(1, 1), 1e11, gb_per_s)["flops_per_step_and_rank"] / step_s
        print(f"a rank computes {rate / 1e9:.1f} GFLOP/s beside another; it sends {gb_per_s} GB/s, "
              f"{LATENCY_US} us a hop\n")
        print("| strategy | micro-batches | MB sent, predicted | measured | held MB, predicted | measured | "
              "gathered MB, predicted | measured | step s, predicted | measured | error | waiting |")
        print("| --- " * 12 + "|")
        for strategy, accumulation in RUNS:
            arguments = settings(2, accumulation, strategy)
            extra = result_of(start_run(program, arguments, f"{folder}/{strategy}{accumulation}"))
            cost = predict(program, arguments, rate, gb_per_s)
            held = sum(cost["memory_bytes"][part] for part in ("parameters", "gradients", "optimizer_state"))
            sharding, communication = extra["sharding"], extra["communication"]
            really_held = sum(sharding[part] for part in ("parameter_bytes", "gradient_bytes",
                                                          "optimizer_state_bytes"))
            mb = lambda size: f"{size / 1e6:.3f}"
            print("| " + " | ".join([
                strategy, str(accumulation), mb(cost["sent_bytes_per_step"]),
                mb(communication["sent_bytes_per_step"]), mb(held), mb(really_held),
                mb(cost["memory_bytes"]["gathered"]), mb(sharding["gathered_peak_bytes"]),
                f"{cost['step_seconds']['total']:.3f}", f"{seconds_of(extra):.3f}",
                percent(cost["step_seconds"]["total"], seconds_of(extra)),
                f"{100 * communication['wait_fraction']['mean']:.1f} %"]) + " |", flush=True)


if __name__ == "__main__":
    main()
