#!/usr/bin/env python3
"""Kills runs that save a checkpoint after every step, and their children, at random instants.

    kill_saving.py SFTBENCH [KILLS=40] [RANKS=1]

A tiny model is really trained. Each run goes on from the newest checkpoint that the killed ones left. Whatever happens:
a checkpoint that once stood there keeps every byte, each has the bytes of an undisturbed run's, the model's folder is
absent or whole, and the last run leaves nothing lying about.
"""

import collections
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

TRAINING = pathlib.Path(__file__).resolve().parent.parent / "reference" / "training"
STEPS = 12
VOLATILE = {"trainer_state.json", "sftbench_manifest.json"}  # hold times, and checksums of such files


def make_job(program, ranks, work):
    command = [program, "run", "--experiment", "finetune_full_benchmark-v1.0.0", "--weights", "random", "--dry-run"]
    for setting in ("model_name=smollm2-135m", "number_gpus=0", "model_max_length=48", "batch_size=1",
                    f"max_steps={STEPS}", "dataset_id=news-tokens-16384plus-entries-4096"):
        command += ["--set", setting]
    job = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    model = TRAINING / "llama"
    job["model"] = {"name": "llama", "hf_config": json.loads((model / "config.json").read_text()),
                    "weights_directory": str(model), "tokenizer_directory": str(TRAINING / "tokenizer")}
    job["data"].update(path=str(TRAINING / "dataset.jsonl"), model_max_length=48, token_cache_directory="")
    job["batches"].update(per_device_batch_size=2, gradient_accumulation_steps=1, max_steps=STEPS)
    job["precision"].update(torch_dtype="float32", autocast="no")
    job["device"].update(kind="cpu", ranks=ranks, nodes=1, threads=1)
    job["parallel"].update(strategy="FULL_SHARD" if ranks > 1 else "DDP", state_dict_type="SHARDED_STATE_DICT")
    path = work / "job.json"
    path.write_text(json.dumps(job))
    return path


def sums(folder):
    return {str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(folder.rglob("*")) if file.is_file()}


def lasting(contents):
    return {name: digest for name, digest in contents.items() if pathlib.Path(name).name not in VOLATILE}


def checkpoints(kept):
    return {int(folder.name.split("-")[1]): folder for folder in kept.glob("checkpoint-*")}


class Runs:
    def __init__(self, program, job, work):
        self.program, self.job, self.work = program, job, work
        self.kept, self.model = work / "kept", work / "model"
        self.seen = {}
        self.log = work / "run.log"

    def start(self):
        words = [self.program, "run", "--job", self.job, "-o", self.work / "results", "--no-progress",
                 "--save-strategy", "steps", "--save-steps", "1", "--checkpoint-dir", self.kept,
                 "--save-model-dir", self.model]
        if checkpoints(self.kept):
            words += ["--resume-from-checkpoint", self.kept]
        with self.log.open("wb") as log:
            return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=log)

    def clear(self):
        self.seen = {}
        for folder in (self.kept, self.model, self.work / "results"):
            shutil.rmtree(folder, ignore_errors=True)

    def whole(self):
        process = self.start()
        if process.wait() != 0:
            sys.exit(f"a run that nobody disturbed ended with status {process.returncode}:\n{self.log.read_text()}")

    def look(self, expected, model):
        """Requires that what stands there is what was there before, and what an undisturbed run leaves."""
        problems = []
        found = {step: sums(folder) for step, folder in checkpoints(self.kept).items()}
        for step, contents in found.items():
            if contents != self.seen.get(step, contents):
                problems.append(f"checkpoint-{step} has changed")
            if lasting(contents) != expected[step] or not VOLATILE <= contents.keys():
                problems.append(f"checkpoint-{step} is not that of an undisturbed run")
        problems += [f"checkpoint-{step} is gone" for step in self.seen if step not in found]
        self.seen = found
        if self.model.exists() and lasting(sums(self.model)) != model:
            problems.append("the model is not whole")
        if problems:
            sys.exit("\n".join(problems) + "\n" + self.log.read_text())


def descendants(pid):
    listed = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True)
    children = [int(child) for child in listed.stdout.split()]
    return children + [far for child in children for far in descendants(child)]


def await_instant(runs, process, saving_s):
    """Now and then any, else one that is near saving: the first beginning takes longer than all of saving."""
    if random.random() < 0.1:
        return time.sleep(random.random())
    before = set(runs.kept.glob("*")) | set(runs.kept.glob(".*"))
    while process.poll() is None and not (set(runs.kept.glob("*")) | set(runs.kept.glob(".*"))) - before:
        time.sleep(0.002)
    time.sleep(random.random() ** 2 * saving_s)


def kill(process, counts):
    if process.poll() is not None:
        counts["ended before"] += 1
        return
    below = descendants(process.pid)
    victim = random.choice(below) if below and random.random() < 0.5 else process.pid
    try:
        os.kill(victim, signal.SIGKILL)
        counts["parents" if victim == process.pid else "children"] += 1
    except ProcessLookupError:
        counts["ended before"] += 1
    process.wait(60)
    deadline = time.monotonic() + 30  # those below end with their parent
    while any(pathlib.Path(f"/proc/{pid}/cmdline").exists() for pid in below):
        if time.monotonic() > deadline:
            sys.exit(f"processes outlive their parent: {below}")
        time.sleep(0.02)


def main():
    program, kills, ranks = sys.argv[1], *(int(word) for word in (sys.argv[2:] + ["40", "1"][len(sys.argv) - 2 :]))
    seed = int(os.environ.get("SEED", time.time_ns() % 1000000))
    random.seed(seed)
    print(f"SEED={seed}", file=sys.stderr)
    work = pathlib.Path(tempfile.mkdtemp())
    counts = collections.Counter()
    try:
        runs = Runs(program, make_job(program, ranks, work), work)
        runs.whole()
        times = [folder.stat().st_mtime for folder in checkpoints(runs.kept).values()]
        saving_s = runs.model.stat().st_mtime - min(times)
        expected = {step: lasting(sums(folder)) for step, folder in checkpoints(runs.kept).items()}
        model = lasting(sums(runs.model))
        if sorted(expected) != list(range(1, STEPS + 1)) or len({str(files) for files in expected.values()}) != STEPS:
            sys.exit(f"an undisturbed run left checkpoints {sorted(expected)}, or equal ones")
        runs.clear()
        while counts["parents"] + counts["children"] < kills:
            process = runs.start()
            await_instant(runs, process, saving_s)
            kill(process, counts)
            runs.look(expected, model)
            counts["most checkpoints"] = max(counts["most checkpoints"], len(runs.seen))
            if STEPS in runs.seen:
                counts["killed between the last checkpoint and the model"] += not runs.model.exists()
                finish(runs, expected, model, counts)
        finish(runs, expected, model, counts)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"{ranks} rank(s): " + ", ".join(f"{value} {name}" for name, value in sorted(counts.items())))


def finish(runs, expected, model, counts):
    """Without the last two checkpoints, as --save-total-limit may leave it: a run has something to do."""
    for step in (STEPS, STEPS - 1):
        shutil.rmtree(runs.kept / f"checkpoint-{step}", ignore_errors=True)
        runs.seen.pop(step, None)
    shutil.rmtree(runs.model, ignore_errors=True)  # a run does not replace what it did not save
    runs.whole()
    runs.look(expected, model)
    if not runs.model.exists():
        sys.exit("a run that nobody disturbed left no model")
    left = [path.name for folder in (runs.kept, runs.work) for path in folder.iterdir()
            if path.name.startswith(".") or ".saved" in path.name]
    if left:
        sys.exit(f"left lying about: {left}")
    counts["runs to the end"] += 1
    runs.clear()


if __name__ == "__main__":
    main()
