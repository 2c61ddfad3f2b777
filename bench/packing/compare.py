#!/usr/bin/env python3
"""What padding costs: the same text, padded, laid in one row, and packed. One run of each in turn, several times.

Prints per kind of row: the share of padding, entries and dataset tokens per second (medians over the turns), the ratio
of dataset tokens per second to the padded run, and what that ratio would be if padding alone cost time (1 / fill).

  bench/packing/compare.py build/release/bin/sftbench --dataset news-chars-512-entries-256 --length 1024
"""
import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from measured_run import in_turns, measured_run  # noqa: E402

KINDS = ["max_length", "longest", "none", "packed"]


def measure(options, padding):
    properties = dict(model_name=options.model, number_gpus=0, batch_size=options.batch, max_steps=options.steps,
                      model_max_length=options.length, dataset_id=options.dataset, gradient_accumulation_steps=1,
                      torch_dtype=options.dtype, gradient_checkpointing=False)
    return measured_run(options.program, "finetune_full_benchmark-v1.0.0", properties, padding)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--dataset", default="news-chars-512-entries-256")
    parser.add_argument("--dtype", default="bfloat16")
    for name, value in dict(length=1024, batch=2, steps=3, turns=3).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--kinds", nargs="+", default=KINDS)
    options = parser.parse_args()

    runs = in_turns(options.kinds, options.turns, lambda kind: measure(options, kind))

    def median(kind, name):
        return statistics.median(run["measured"][name] for run in runs[kind])

    padded = options.kinds[0]
    print("| rows | padding | entries/s | dataset tokens/s | x padded | 1 / fill of padded | of that |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    ideal = 1 / (1 - runs[padded][0]["extra"]["padding_fraction"])
    for kind in options.kinds:
        ratio = median(kind, "dataset_tokens_per_second") / median(padded, "dataset_tokens_per_second")
        print(f"| {kind} | {100 * runs[kind][0]['extra']['padding_fraction']:.1f} % | "
              f"{median(kind, 'train_samples_per_second'):.2f} | {median(kind, 'dataset_tokens_per_second'):.0f} | "
              f"{ratio:.2f} | {ideal:.2f} | {ratio / ideal:.2f} |")


if __name__ == "__main__":
    main()
