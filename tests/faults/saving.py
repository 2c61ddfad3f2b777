"""Runs that save a checkpoint after every step: killed with or without their children, given damaged checkpoints, and
disturbed by strangers at their ports.

A tiny model is really trained. A checkpoint that once stood there keeps every byte, and has those of an undisturbed run's.
The model's folder is absent or whole. A damaged checkpoint is refused by name. The last run leaves nothing lying about.
"""

import collections
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import time

from simulated import Lost, Program, children_of
from store import damage, digest_of

TRAINING = pathlib.Path(__file__).resolve().parent.parent / "reference" / "training"
STEPS = 12
VOLATILE = {"trainer_state.json", "sftbench_manifest.json"}  # hold times, and checksums of such files


def make_job(program, work, ranks):
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
    return {str(file.relative_to(folder)): digest_of(file) for file in sorted(folder.rglob("*")) if file.is_file()}


def lasting(contents):
    return {name: digest for name, digest in contents.items() if pathlib.Path(name).name not in VOLATILE}


class Runs:
    def __init__(self, program, work, ranks):
        self.program, self.work = program, work
        self.job = make_job(program, work, ranks)
        self.kept, self.model = work / "kept", work / "model"
        self.seen = {}
        self.whole()
        times = [folder.stat().st_mtime for folder in self.checkpoints().values()]
        self.saving_s = self.model.stat().st_mtime - min(times)
        self.expected = {step: lasting(sums(folder)) for step, folder in self.checkpoints().items()}
        self.whole_model = lasting(sums(self.model))
        if sorted(self.expected) != list(range(1, STEPS + 1)):
            raise Lost(f"an undisturbed run left checkpoints {sorted(self.expected)}")

    def checkpoints(self):
        return {int(folder.name.split("-")[1]): folder for folder in self.kept.glob("checkpoint-*")}

    def start(self, resume=None, **options):
        words = [self.program, "run", "--job", self.job, "-o", self.work / "results", "--no-progress", "--format", "json",
                 "--save-strategy", "steps", "--save-steps", "1", "--checkpoint-dir", self.kept,
                 "--save-model-dir", self.model]
        if self.checkpoints():
            words += ["--resume-from-checkpoint", resume or self.kept]
        return Program("run", self.work, words, **options)

    def clear(self):
        self.seen = {}
        for folder in (self.kept, self.model, self.work / "results"):
            shutil.rmtree(folder, ignore_errors=True)

    def whole(self):
        self.start().end(120, {0})

    def look(self):
        """Requires that what stands there is what was there before, and what an undisturbed run leaves."""
        problems = []
        found = {step: sums(folder) for step, folder in self.checkpoints().items()}
        for step, contents in found.items():
            if contents != self.seen.get(step, contents):
                problems.append(f"checkpoint-{step} has changed")
            if lasting(contents) != self.expected[step] or not VOLATILE <= contents.keys():
                problems.append(f"checkpoint-{step} is not that of an undisturbed run")
        problems += [f"checkpoint-{step} is gone" for step in self.seen if step not in found]
        self.seen = found
        if self.model.exists() and lasting(sums(self.model)) != self.whole_model:
            problems.append("the model is not whole")
        if problems:
            raise Lost("\n".join(problems))

    def finish(self):
        """Without the last two checkpoints, as --save-total-limit may leave it: a run has something to do."""
        for step in (STEPS, STEPS - 1):
            shutil.rmtree(self.kept / f"checkpoint-{step}", ignore_errors=True)
            self.seen.pop(step, None)
        self.whole()
        self.look()
        left = [path.name for folder in (self.kept, self.work) for path in folder.iterdir()
                if path.name.startswith(".") or ".saved" in path.name]
        if left or not self.model.exists():
            raise Lost(f"left lying about: {left}; model: {self.model.exists()}")


def descendants(pid):
    children = children_of(pid)
    return children + [far for child in children for far in descendants(child)]


def await_instant(runs, process):
    """Now and then any, else one that is near saving: the first beginning takes longer than all of saving."""
    if random.random() < 0.1:
        return time.sleep(random.random())
    there = lambda: set(runs.kept.glob("*")) | set(runs.kept.glob(".*"))
    before = there()
    while process.poll() is None and not there() - before:
        time.sleep(0.002)
    time.sleep(random.random() ** 2 * runs.saving_s)


def kill(process, counts):
    below = descendants(process.pid)
    victim = random.choice(below) if below and random.random() < 0.5 else process.pid
    try:
        os.kill(victim, signal.SIGKILL)
        counts["parents killed" if victim == process.pid else "children killed"] += 1
    except ProcessLookupError:
        pass  # it had ended before
    process.wait(60)
    deadline = time.monotonic() + 30  # those below end with their parent
    while any(pathlib.Path(f"/proc/{pid}/cmdline").exists() for pid in below):
        if time.monotonic() > deadline:
            raise Lost(f"processes outlive their parent: {below}")
        time.sleep(0.02)


def try_saving(program, work, enough):
    counts, runs = collections.Counter(), Runs(program, work, random.choice([1, 2]))
    runs.clear()
    while not enough(counts.total()):
        process = runs.start().process
        await_instant(runs, process)
        kill(process, counts)
        runs.look()
        if STEPS in runs.seen:
            runs.finish()
            runs.clear()
    runs.finish()
    return counts


def try_checkpoints(program, work, enough):
    """A run that goes on from a damaged checkpoint would train on what nobody has saved."""
    counts, runs = collections.Counter(), Runs(program, work, 1)
    source = work / "source"
    shutil.copytree(runs.checkpoints()[STEPS - 2], source)
    while not enough(counts.total()):
        runs.clear()
        folder = runs.kept / f"checkpoint-{STEPS - 2}"
        shutil.copytree(source, folder)
        file = random.choice([file for file in folder.rglob("*") if file.is_file()])
        before = file.read_bytes()
        file.unlink() if random.random() < 0.2 else damage(file)
        if file.exists() and file.read_bytes() == before:
            continue
        run = runs.start(resume=folder)
        status = run.end(120, {2, 4})
        result = "".join(path.read_text() for path in (runs.work / "results").rglob("*.json"))
        if "cannot resume" not in run.said() + result and file.name not in run.said() + result:
            raise Lost(f"{file.name} was damaged, status {status}:\n{run.said()}")
        counts["checkpoints damaged"] += 1
    return counts


def listening(pids):
    """Ports of these processes."""
    ports = set()
    for pid in pids:
        try:
            sockets = {os.readlink(link)[8:-1] for link in pathlib.Path(f"/proc/{pid}/fd").iterdir()
                       if os.readlink(link).startswith("socket:[")}
            for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and fields[9] in sockets:
                    ports.add(int(fields[1].split(":")[1], 16))
        except OSError:
            pass  # it has ended
    return ports


def try_strangers(program, work, enough):
    """Whoever connects to the ports of the ranks, says anything, or says nothing, changes no bit of what is trained."""
    counts, runs = collections.Counter(), Runs(program, work, 2)
    while not enough(counts.total()):
        runs.clear()
        run, held = runs.start(), []
        while run.alive():
            for port in listening([run.process.pid] + descendants(run.process.pid)):
                try:
                    stranger = socket.create_connection(("127.0.0.1", port), timeout=1)
                except OSError:
                    continue
                said = random.choice([b"", b"GET / HTTP/1.1\r\n\r\n", random.randbytes(64), b"\x00" * 4096, b"\xff" * 8])
                try:
                    stranger.sendall(said)
                except OSError:
                    pass
                counts["strangers"] += 1
                held.append(stranger) if random.random() < 0.5 else stranger.close()
            time.sleep(0.01)
        for stranger in held:
            stranger.close()
        run.end(1, {0})
        runs.look()
    return counts
