#!/usr/bin/env python3
"""`sftbench status --watch` on a pseudo-terminal while a worker measures simulated cells.

  tests/status_watch.py PROGRAM

The screen must fit the terminal, show the cell that is measured, count up, take another size of the terminal at the
next look, end by itself with the last cell, and leave what it showed. Ctrl-C must end it.
"""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

CELLS = 12
SPACE = """\
experiments:
- {experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer,
   parameterization: [{property: {identifier: max_steps}, value: 3}]}
entitySpace:
- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}
- {identifier: number_gpus, propertyDomain: {values: [2]}}
- {identifier: gpu_model, propertyDomain: {values: [NVIDIA-H100-PCIe]}}
- {identifier: model_max_length, propertyDomain: {values: [64, 128, 256, 512, 1024, 2048]}}
- {identifier: batch_size, propertyDomain: {values: [2, 4]}}
"""
REDRAW = "\x1b[H\x1b[2J"
SIMULATE = ["--backend", "simulate"]


class Terminal:
    """A program that has a terminal of its own, and all that it wrote to it."""

    def __init__(self, command, rows, columns):
        self.master, slave = pty.openpty()
        self.resize(rows, columns)
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
                                        env={**os.environ, "TERM": "xterm"})
        os.close(slave)
        self.text = ""

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def read(self, seconds):
        """False when the other side has been closed."""
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            if not select.select([self.master], [], [], left_s)[0]:
                return True
            try:
                part = os.read(self.master, 65536)
            except OSError:
                return False
            self.text += part.decode()
        return True

    def read_to_the_end(self, seconds):
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s and self.read(0.2):
            pass
        return self.process.wait(timeout=10)

    def screens(self):
        return [screen.replace("\r\n", "\n") for screen in self.text.split(REDRAW)]


def expect(holds, what, terminal):
    if not holds:
        sys.exit(f"{what}; the terminal got:\n{terminal.text!r}")


def fits(screen, rows, columns):
    lines = screen.split("\n")
    return len(lines) <= rows and all(len(line) <= columns for line in lines)


def ended(screen):
    match = re.match(r"(\d+) of (\d+) cells have ended", screen)
    return int(match.group(1)) if match and int(match.group(2)) == CELLS else None


def main():
    program = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        space, results = str(folder / "space.yaml"), str(folder / "results")
        Path(space).write_text(SPACE)
        subprocess.run([program, "sweep", space, "-o", results, "--limit", "1", *SIMULATE], check=True,
                       capture_output=True)
        watch = [program, "status", results, space, "--watch", "--interval", "0.1", *SIMULATE]

        small = Terminal(watch, rows=8, columns=60)
        worker = subprocess.Popen([program, "sweep", space, "-o", results, "--worker", "--simulate", "sleep_s=0.1",
                                   *SIMULATE], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        small.read(1.5)
        small.resize(5, 60)
        before = len(small.screens())
        status = small.read_to_the_end(60)
        expect(worker.wait(timeout=60) == 0, "the worker failed", small)
        expect(status == 0, f"--watch ended with status {status}", small)
        screens = small.screens()
        expect(screens[0] == "", "something stands before the first screen", small)
        expect(all(fits(screen, 8, 60) for screen in screens), "a screen is larger than the terminal", small)
        expect(all(fits(screen, 5, 60) for screen in screens[before + 1:]), "the new size is not taken", small)
        counts = [ended(screen) for screen in screens[1:]]
        expect(None not in counts and counts == sorted(counts), f"counts {counts}", small)
        expect(counts[0] < CELLS and counts[-1] == CELLS, f"counts {counts}", small)
        expect(any("measured now" in screen for screen in screens), "no cell is measured on any screen", small)
        expect(len(set(counts)) > 3, f"it did not follow: counts {counts}", small)

        # Nothing is left to watch for without a worker, so it would go on.
        (next(Path(results).glob("*/*.json"))).unlink()
        waiting = Terminal(watch, rows=24, columns=80)
        waiting.read(1)
        os.write(waiting.master, b"\x03")  # Ctrl-C, as the terminal's driver gives it on
        status = waiting.read_to_the_end(10)
        expect(status in (130, -signal.SIGINT), f"Ctrl-C ended it with status {status}", waiting)
        expect(ended(waiting.screens()[-1].split("^C")[0]) == CELLS - 1, "the last screen is gone", waiting)
        print(json.dumps({"screens": len(screens), "counts": counts}))


main()
