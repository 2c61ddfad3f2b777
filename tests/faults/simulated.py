"""What the tests share that disturb sweeps of simulated cells."""

import re
import subprocess

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
BATCH_SIZES = [2, 4, 5, 6, 8]  # on two GPUs: 5 breaks rule 1


class Lost(Exception):
    """A promise that was broken."""


def write_space(work, cells, batch_sizes):
    """work/space.yaml with so many cells, on two GPUs that are made up."""
    end = 64 + cells // len(batch_sizes)
    (work / "space.yaml").write_text(SPACE.format(end=end, batch_sizes=batch_sizes))


def simulated(program, work, kind="sweep", step_s=0):
    """The words of a sweep or a run of work/space.yaml."""
    return [program, kind, work / "space.yaml", "-o", work / "results", "--backend", "simulate", "--simulate",
            f"sleep_s={step_s}"] + (["--max-quick-failures", "0"] if kind == "sweep" else [])


def label(inputs):
    """The cell as a sweep calls it."""
    return f"model_max_length={inputs['model_max_length']} batch_size={inputs['batch_size']}"


def settled_cells(log):
    """The labels of the cells that a sweep says it has settled, each as often as it says so."""
    return re.findall(r"^\[\d+/\d+\] (?:valid|invalid) +([^:\n]+):", log, re.M)


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
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def sweeps(self):
        return "sweep of" in self.said()

    def end(self, seconds, statuses):
        """Its status, which is one of these."""
        try:
            status = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise Lost(f"it hangs:\n{self.said()}") from None
        if status not in statuses:
            raise Lost(f"it ended with status {status}:\n{self.said()}")
        return status

    def children(self):
        return children_of(self.process.pid)


def children_of(pid):
    return [int(child) for child in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()]
