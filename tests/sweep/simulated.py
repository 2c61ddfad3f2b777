"""What the tests share that disturb sweeps of simulated cells (kill.py, workers.py)."""

import os
import random
import re
import subprocess
import sys
import time

SPACE = """
experiments:
- {{experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer,
   parameterization: [{{property: {{identifier: max_steps}}, value: 3}}]}}
entitySpace:
- {{identifier: model_name, propertyDomain: {{values: [smollm2-135m]}}}}
- {{identifier: number_gpus, propertyDomain: {{values: [2]}}}}
- {{identifier: gpu_model, propertyDomain: {{values: [NVIDIA-H100-PCIe]}}}}
- {{identifier: model_max_length, propertyDomain: {{domainRange: [64, {end}], interval: 1}}}}
- {{identifier: batch_size, propertyDomain: {{values: {batch_sizes}}}}}
"""


def write_space(work, cells, batch_sizes):
    """work/space.yaml with so many cells, on two GPUs that are made up."""
    end = 64 + cells // len(batch_sizes)
    (work / "space.yaml").write_text(SPACE.format(end=end, batch_sizes=batch_sizes))


def label(inputs):
    """The cell as a sweep calls it."""
    return f"model_max_length={inputs['model_max_length']} batch_size={inputs['batch_size']}"


def settled_cells(log):
    """The labels of the cells that a sweep says it has settled, each as often as it says so."""
    return re.findall(r"^\[\d+/\d+\] (?:valid|invalid) +([^:\n]+):", log, re.M)


def draw_seed():
    """SEED of the environment, or one that is drawn; said in either case, so that it can be repeated."""
    seed = int(os.environ.get("SEED", time.time_ns() % 1000000))
    random.seed(seed)
    print(f"SEED={seed}", file=sys.stderr)


class Program:
    """One process of the program, with what it says in a log."""

    count = 0

    def __init__(self, name, work, words, **options):
        Program.count += 1
        self.log = work / f"{name}-{Program.count}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=log, **options)

    def alive(self):
        return self.process.poll() is None

    def said(self):
        return self.log.read_text(errors="replace")

    def sweeps(self):
        return "sweep of" in self.said()

    def children(self):
        listed = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True)
        return [int(pid) for pid in listed.stdout.split()]
