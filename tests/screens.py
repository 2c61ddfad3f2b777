#!/usr/bin/env python3
"""The first screens of sftbench, as a terminal of 80 and of 120 columns shows them.

  tests/screens.py PROGRAM [--columns 80 --columns 120] [--check]

Runs each command in a pseudo-terminal and prints what stands on it in the end. A line that the terminal would break
is marked by '>'. --check prints nothing but those of them that could be broken between words, and ends with 1 when
there are any: tables, paths and commands are wider than any terminal, and stay whole.
"""

import argparse
import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path

SPACE = """\
experiments:
- {experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer}
entitySpace:
- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}
- {identifier: number_gpus, propertyDomain: {values: [0]}}
- {identifier: model_max_length, propertyDomain: {values: [64, 128]}}
- {identifier: batch_size, propertyDomain: {values: [1, 2]}}
"""
FULL = ["--experiment", "finetune_full_benchmark-v1.0.0"]
ONE = ["--set", "number_gpus=0", "--set", "model_max_length=64", "--set", "batch_size=1"]
SIMULATE = ["--backend", "simulate", "--simulate", "steps=8"]


def screens(folder):
    space = str(folder / "space.yaml")
    results = str(folder / "results")
    return [
        ["sftbench"],
        ["sftbench", "run", "--help"],
        ["sftbench", "sweep", "--help"],
        ["sftbench", "expand", space],
        ["sftbench", "run", space, "--entity", "0", "-o", results, *SIMULATE],
        ["sftbench", "sweep", space, "-o", results, *SIMULATE],
        ["sftbench", "report", results, "--include-simulated"],
        ["sftbench", "predict", space, "--entity", "0", "--flops-per-s", "1e12"],
        ["sftbench", "models", "smollm2-135m"],
        # an error of each kind: a command, an option, a value, a file, a choice, a model that is not trained, weights
        ["sftbench", "rnu"],
        ["sftbench", "run", "--experimnt", "x"],
        ["sftbench", "run", *FULL, *ONE, "--set", "model_name=smollm2"],
        ["sftbench", "run", *FULL, *ONE, "--set", "model_name=smollm2-135m", "--set", "optim=adam"],
        ["sftbench", "expand", str(folder / "not-there.yaml")],
        ["sftbench", "run", space],
        ["sftbench", "run", *FULL, *ONE, "--set", "model_name=mixtral-8x7b-instruct-v0.1", "-o", results],
        ["sftbench", "run", space, "--entity", "0", "-o", results],
        ["sftbench", "run", *FULL, *ONE, "--set", "model_name=llama3.1-405b", "--weights", "random", "--dry-run"],
    ]


def shown(command, columns, folder):
    """What a terminal shows in the end: carriage returns overwrite, the codes that sftbench uses are obeyed."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {**os.environ, "HF_HOME": str(folder / "hf"), "TERM": "xterm"}
    environment.pop("COLUMNS", None)
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=environment, close_fds=True)
    os.close(slave)
    data = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        data += part
    os.close(master)
    process.wait()
    lines = []
    for text in data.decode(errors="replace").replace("\r\n", "\n").split("\n"):
        for up, rest in re.findall(r"\x1b\[(\d+)A\x1b\[J|(.+)", text) if "\x1b[" in text and "A\x1b[J" in text else []:
            if up:
                del lines[len(lines) - int(up):]
            text = rest or text
        text = text.split("\r")[-1]
        lines.append(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text))
    return lines


# Tables and what people copy: columns, paths, commands, JSON.
WHOLE = re.compile(r"^\S*$|  \S|^\s*[\"{\[]|sftbench |/|--|SFTTrainer\.|-number_gpus\.")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--columns", type=int, action="append")
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    program = shutil.which(arguments.program) or arguments.program
    ugly = 0
    for columns in arguments.columns or [80, 120]:
        with tempfile.TemporaryDirectory(dir="/tmp") as name:
            folder = Path(name)
            (folder / "space.yaml").write_text(SPACE)
            for command in screens(folder):
                lines = shown([program, *command[1:]], columns, folder)
                if not arguments.check:
                    print("=" * columns)
                    print("$", " ".join(command))
                for line in lines:
                    wide = len(line) > columns
                    if not arguments.check:
                        print((">" if wide else " ") + line)
                    elif wide and not WHOLE.search(line):
                        ugly += 1
                        print(f"{columns} columns, {' '.join(command)}:\n  {line}")
    return 1 if ugly else 0


if __name__ == "__main__":
    sys.exit(main())
