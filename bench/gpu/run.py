#!/usr/bin/env python3
"""Asks a machine with a GPU everything that only a GPU can tell (plan.py), and writes the answers to OUT.

  bench/gpu/run.py OUT [PART...]

Without a PART each call goes on where the one before it stopped, in the order of what a part is worth. A part that is
named runs again. OUT gets table.txt, summary.json and results.tar.gz after each process, so that a call that is cut short
loses the process that ran. `bench/gpu/table.py ARCHIVE...` puts the archives of several machines together.
"""
import argparse
import ctypes
import functools
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import plan
import table

ROOT = Path(__file__).resolve().parents[2]
DRIVER_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib/wsl/lib", "/usr/lib/x86_64-linux-gnu/nvidia/current")
PR_SET_PDEATHSIG = 1
FAULTS = {"hang": ["sleep", "1000"], "crash": ["bash", "-c", "kill -SEGV $$"]}
BESIDE = 4  # processes at a time where nothing is timed
TINY = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 8192, "hidden_act": "silu",
        "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16"}


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="parts: " + " ".join(plan.PARTS))
    parser.add_argument("out", type=Path, metavar="OUT", help="a folder")
    parser.add_argument("parts", nargs="*", metavar="PART", help="of the parts below; without any, all that are not done")
    parser.add_argument("--seconds", type=float, default=540, help="that the call may take (540)")
    parser.add_argument("--limit", type=float, default=240, help="seconds that one process may take at most (240)")
    parser.add_argument("--work", type=Path, default=ROOT / "results", help="where answers are kept between calls (results)")
    parser.add_argument("--bin", type=Path, default=ROOT / "build/cuda/bin", help="the programs (build/cuda/bin)")
    parser.add_argument("--python", default=sys.executable, help="has torch, transformers and peft (the one that runs this)")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--rehearsal", action="store_true", help="the same processes on a model of two layers")
    parser.add_argument("--fault", default="", metavar="STEP:KIND", help="of a rehearsal: the step's process will hang or crash")
    options = parser.parse_intermixed_args(arguments)
    for part in options.parts:
        if part not in plan.PARTS:
            parser.error(f"there is no part '{part}'; parts are {' '.join(plan.PARTS)}")
    return options


def library_path(python):
    """Ours, libtorch's, NVIDIA's, and then the driver's: what was set, and the usual folders behind it."""
    found = subprocess.run([python, "-c", "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"],
                           capture_output=True, text=True)
    if found.returncode != 0:
        sys.exit(f"run.py: {python} has no torch: {found.stderr.strip().splitlines()[-1]}")
    torch = Path(found.stdout.strip())
    nvidia = sorted(str(folder) for folder in torch.parent.glob("nvidia/*/lib"))
    given = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    folders = [str(ROOT / "lib"), str(torch / "lib"), *nvidia, *given, *DRIVER_FOLDERS]
    return ":".join(dict.fromkeys(folders))


def install_wheels(python, environment):
    """The peer's packages that the archive brings."""
    wheels, site = sorted(map(str, (ROOT / "wheels").glob("*.whl"))), ROOT / "site"
    if not wheels:
        return
    if not site.exists():
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile", "--target", site,
                        *wheels], check=False)
    environment["PYTHONPATH"] = ":".join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))


class Call:
    """One call: its time, its processes, and what it leaves."""

    def __init__(self, options):
        self.begin, self.options, self.work = time.monotonic(), options, options.work.resolve()
        self.end = self.begin + options.seconds
        self.cut = None
        self.running = {}  # process: (step, its files, when it began, when it must end)
        self.work.mkdir(parents=True, exist_ok=True)
        options.out.mkdir(parents=True, exist_ok=True)
        self.environment = {**os.environ, "LD_LIBRARY_PATH": library_path(options.python), "PYTHONUNBUFFERED": "1",
                            "SFTBENCH_TEST_DEVICE": options.device, "HF_HUB_OFFLINE": "1"}
        install_wheels(options.python, self.environment)

    def left_s(self):
        return self.end - time.monotonic()

    def note(self, **row):
        with open(self.work / "steps.jsonl", "a") as log:
            log.write(json.dumps(row) + "\n")

    def done(self):
        """The names of the steps that earlier calls ended."""
        return {(row["part"], row["step"], row["ending"]) for row in table.rows_of(self.work / "steps.jsonl")
                if not row["outcome"].startswith("cut")}

    def start(self, part, step):
        number = 1
        while any(self.work.glob(f"{step.name}.{number}.{step.ending}*")):
            number += 1
        output = self.work / f"{step.name}.{number}.{step.ending}"
        command = [str(word).replace("OUTPUT", str(output)) for word in step.command]
        says = self.work / f"{step.name}.{number}.out" if any("OUTPUT" in str(word) for word in step.command) else output
        log = self.work / f"{step.name}.{number}.log"
        if self.options.fault.startswith(f"{step.name}:") and step.ending != "job.json":
            command = FAULTS[self.options.fault.partition(":")[2]]
        began = time.monotonic()
        try:
            with open(says, "w") as stdout, open(log, "a") as stderr:
                process = subprocess.Popen(command, cwd=ROOT, env={**self.environment, **step.environment},
                                           stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, process_group=0,
                                           preexec_fn=functools.partial(end_with, os.getpid()))
        except OSError as error:
            self.settle(part, step, began, f"did not start: {error.strerror}")
            return
        limit_s = min(step.limit_s, self.options.limit, self.left_s())
        self.running[process] = (part, step, began, began + limit_s)

    def settle(self, part, step, began, outcome):
        self.note(part=part, step=step.name, ending=step.ending, outcome=outcome, seconds=round(time.monotonic() - began, 1),
                  ended_at=time.time())
        self.save()

    def poll(self):
        """Ends what is late, notes what has ended."""
        for process, (part, step, began, late) in list(self.running.items()):
            outcome = None
            if process.poll() is not None:
                code = process.returncode
                outcome = "ok" if code == 0 else f"exit {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
            elif self.cut or time.monotonic() > late:
                kill(process)
                outcome = self.cut or f"ended after {time.monotonic() - began:.0f} s"
            if outcome:
                del self.running[process]
                self.settle(part, step, began, outcome)

    def wait(self, most):
        """Until fewer than `most` processes run."""
        while len(self.running) >= most:
            self.poll()
            time.sleep(0.02)

    def run(self, part, steps):
        begin, named, done = time.monotonic(), part in self.options.parts, self.done()
        for step in steps:
            if not named and (part, step.name, step.ending) in done:
                continue
            self.wait(BESIDE if step.beside else 1)
            if self.cut:
                break
            if self.left_s() < step.needs_s:
                print(f"part {part}: {step.name} and what follows are left to the next call, {self.left_s():.0f} s are too few",
                      flush=True)
                self.wait(1)
                return False
            self.start(part, step)
        self.wait(1)
        print(f"part {part}: {time.monotonic() - begin:.1f} s", flush=True)
        return self.cut is None

    def save(self):
        """Everything so far, in three files that replace those before."""
        summary = table.summary_of(self.work)
        text = table.text_of(summary)
        replace(self.options.out / "summary.json", lambda path: path.write_text(json.dumps(summary, indent=1) + "\n"))
        replace(self.options.out / "table.txt", lambda path: path.write_text(text))
        replace(self.options.out / "results.tar.gz", lambda path: pack(self.work, path))
        return text


def end_with(parent):
    """What a call leaves when it is killed must not keep the GPU, also where that was killed before this line."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def kill(process):
    """The process and all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def replace(path, write):
    part = path.with_name(path.name + ".part")
    write(part)
    part.replace(path)


def pack(work, path):
    with tarfile.open(path, "w:gz", compresslevel=3) as archive:
        for file in sorted(work.iterdir()):
            if file.is_file() and file.suffix != ".jsonl" or file.name == "steps.jsonl":
                archive.add(file, file.name)


def machine_of(call):
    """What `doctor` sees."""
    options = call.options
    machine = plan.Machine(bin=options.bin.resolve(), work=call.work, python=options.python, device=options.device,
                           rehearsal=options.rehearsal)
    doctor = subprocess.run([machine.bin / "sftbench", "doctor", "--format", "json"], env=call.environment, text=True,
                            capture_output=True, timeout=60)
    try:
        rows = json.loads(doctor.stdout)
    except json.JSONDecodeError:
        print(f"doctor said nothing: {doctor.stderr.strip()[-300:]}", flush=True)
        rows = []
    gpus = [row["found"] for row in rows if re.fullmatch(r"gpu \d+", row["subject"])]
    if gpus:
        machine.gpu, memory = gpus[0].rsplit(", ", 1)
        machine.gpus, machine.memory_gib = len(gpus), float(memory.removesuffix(" GiB"))
        print(f"{len(gpus)} of {gpus[0]}", flush=True)
    elif options.device == "cuda":
        print("doctor sees no GPU: runs on GPUs will say so", flush=True)
    if options.rehearsal:
        model = call.work / "models/rehearsal"
        model.mkdir(parents=True, exist_ok=True)
        (model / "config.json").write_text(json.dumps(TINY))
    return machine


def main():
    call = Call(parsed(None))

    def cut(number, _):
        call.cut = f"cut by {signal.Signals(number).name}"

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, cut)
    try:
        print(f"LD_LIBRARY_PATH {call.environment['LD_LIBRARY_PATH']}", flush=True)
        machine = machine_of(call)
        for part in call.options.parts or plan.PARTS:
            if not call.run(part, plan.PARTS[part](machine)):
                break
    finally:
        was_cut, call.cut = call.cut, call.cut or "cut by an error"
        call.poll()
        print(call.save(), end="", flush=True)
    sys.exit(1 if was_cut else 0)


if __name__ == "__main__":
    main()
