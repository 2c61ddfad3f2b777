#!/usr/bin/env python3
"""`sftbench frontier` on the simulated backend with noise, seed after seed: frontier_seeds.py SFTBENCH [NOISE] [SEEDS]

Prints how often the edge was within one of the true one, which is that without noise, and how many runs it took.
"""
import json
import math
import subprocess
import sys
import tempfile

MOST = 64


def frontier(program, folder, *further):
    command = [program, "frontier", "--experiment", "finetune_lora_benchmark-v1.0.0", "--set", "model_name=llama3.1-8b",
               "--set", "number_gpus=1", "--set", "gpu_model=NVIDIA-A100-SXM4-80GB", "--set", "model_max_length=4096",
               "--weights", "random", "--backend", "simulate", "--to", str(MOST), "-o", folder, "--format", "json",
               "--log-level", "error", *further]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main():
    program = sys.argv[1]
    noise, seeds = (sys.argv[2:] + ["0.008", "100"][len(sys.argv) - 2:])
    with tempfile.TemporaryDirectory() as folder:
        true_edge = frontier(program, folder + "/true")["edge"]
        for start in ([], ["--no-guess"]):
            found = [frontier(program, f"{folder}/{seed}{len(start)}", "--simulate", f"memory_noise={noise}", "--simulate",
                              f"seed={seed}", *start) for seed in range(1, int(seeds) + 1)]
            near = sum(abs(one["edge"] - true_edge) <= 1 for one in found)
            runs = [len(one["trials"]) for one in found]
            print(f"{'bisection alone' if start else 'from the prediction'}: edge {true_edge}, noise {noise}, within one in "
                  f"{near} of {len(found)} seeds, exact in {sum(one['edge'] == true_edge for one in found)}, flaky in "
                  f"{sum(one['flaky'] for one in found)}, runs {sum(runs) / len(runs):.1f} on average, {max(runs)} at most "
                  f"(log2(n) + 2 = {math.log2(MOST) + 2:.0f})")


if __name__ == "__main__":
    main()
