#!/usr/bin/env python3
"""GPTQ-LoRA beside LoRA on the same linears: one run of each in turn, several times.

LoRA runs in bfloat16. GPTQ-LoRA's experiment has torch_dtype float16, which libtorch 1.13 cannot multiply on CPUs; what it
computes in stands in extra.compute_dtype and is printed. Prints tokens/s (medians over the turns), the bytes of the
weights as they are held, and the peak of memory.

  bench/tuning/compare.py build/release/bin/sftbench --length 512 --steps 5
"""
import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from measured_run import in_turns, measured_run  # noqa: E402

KINDS = {"lora": ("finetune_lora_benchmark-v1.0.0", "bfloat16"),
         "gptq-lora": ("finetune_gtpq-lora_benchmark-v1.0.0", "float16")}


def measure(options, kind):
    experiment, dtype = KINDS[kind]
    properties = dict(model_name=options.model, number_gpus=0, batch_size=1, max_steps=options.steps, r=4,
                      model_max_length=options.length, dataset_id=options.dataset, gradient_accumulation_steps=1,
                      torch_dtype=dtype, gradient_checkpointing=options.checkpointing)
    return measured_run(options.program, experiment, properties, "max_length")["extra"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dataset", default="news-chars-512-entries-256")
    parser.add_argument("--checkpointing", action="store_true")
    for name, value in dict(length=512, steps=5, turns=3).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    options = parser.parse_args()

    runs = in_turns(KINDS, options.turns, lambda kind: measure(options, kind))

    # The first step of each run warms up.
    seconds = {kind: statistics.median(s for run in runs[kind] for s in run["step_seconds"][1:]) for kind in KINDS}
    weights = {kind: runs[kind][0]["memory_bytes"]["parameters"][0] for kind in KINDS}
    print("| tuning | computes in | median s | tokens/s | speed, of LoRA's | weights MiB | of LoRA's | peak MiB |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for kind in KINDS:
        peak = max(run["memory_bytes"]["host_peak_rss"][0] for run in runs[kind]) / 2**20
        print(f"| {kind} | {runs[kind][0]['compute_dtype']} | {seconds[kind]:.3f} | {options.length / seconds[kind]:.1f} | "
              f"{seconds['lora'] / seconds[kind]:.2f} | {weights[kind] / 2**20:.0f} | "
              f"{weights[kind] / weights['lora']:.2f} | {peak:.0f} |")


if __name__ == "__main__":
    main()
