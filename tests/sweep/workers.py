"""Many workers on one folder that are killed, stopped for longer than their lease and cut off; see workers.sh.

Counted in the end: cells with a settled result, results that are torn, that changed after they were seen or are gone,
cells with two results, cells that two workers say they have settled, and measurements beyond the first of a cell.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile
import time

from simulated import Program, draw_seed, label, settled_cells, write_space

BATCH_SIZES = [2, 4, 6, 8]


class Worker(Program):
    """In a group of its own, so that its children can be stopped with it."""

    def __init__(self, options):
        o = options
        super().__init__("worker", o.work,
                         [o.program, "sweep", o.work / "space.yaml", "-o", o.work / "results", "--worker",
                          "--backend", "simulate", "--simulate", f"sleep_s={o.step_s}", "--claims", o.claims,
                          "--lease", str(o.lease), "--max-quick-failures", "0"], start_new_session=True)
        self.stopped_until = None

    def signal(self, sign, with_children=False):
        """The children have process groups of their own."""
        for pid in [self.process.pid] + (self.children() if with_children else []):
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                pass


class Results:
    """What was seen as settled stays, byte for byte."""

    def __init__(self, path):
        self.path = path
        self.seen = {}  # name -> digest
        self.torn, self.changed, self.doubled = set(), set(), set()
        self.removed = set()  # cells whose results were written where the folder had been

    def look(self):
        for file in self.path.glob("[!.]*/*.json"):
            content = file.read_bytes()
            try:
                status = json.loads(content)["status"]
            except ValueError:
                self.torn.add(file.name)
                continue
            if "." in file.name[: -len(".json")]:
                self.doubled.add(file.name)  # a second sample: its first was measured by two
            digest = hashlib.sha256(content).hexdigest()
            if status != "failed" and self.seen.setdefault(file.name, digest) != digest:
                self.changed.add(file.name)

    def lost(self):
        return [name for name in self.seen if not list(self.path.glob(f"[!.]*/{name}"))]


def disturb(options, workers, counts):
    """One worker dies, or is stopped for longer than its lease, alone or with the cell that it measures."""
    awake = [worker for worker in workers if worker.alive() and not worker.stopped_until]
    if len(awake) < 2:
        return  # somebody has to go on
    worker = random.choice(awake)
    kind = random.choice(["killed", "stopped", "stopped with its cell"])
    if kind == "killed":
        worker.signal(signal.SIGKILL)
        worker.process.wait()
    else:
        worker.signal(signal.SIGSTOP, with_children="cell" in kind)
        worker.stopped_until = time.monotonic() + options.lease * random.uniform(1.5, 3)
    counts[kind] += 1


def wake(workers, all_of_them=False):
    for worker in workers:
        if worker.stopped_until and (all_of_them or time.monotonic() > worker.stopped_until):
            worker.signal(signal.SIGCONT, with_children=True)
            worker.stopped_until = None


def take_away(results):
    """The folder is gone for a while, and comes back without what was written in its place meanwhile."""
    away = results.path.with_name("away")
    results.path.rename(away)
    time.sleep(0.3)
    while True:
        for file in results.path.glob("[!.]*/*.json"):
            results.removed.add(label(json.loads(file.read_bytes())["inputs"]))
        shutil.rmtree(results.path, ignore_errors=True)
        try:
            away.rename(results.path)
            return
        except OSError:
            continue  # one more was written


def campaign(options, results):
    counts = collections.Counter()
    workers = [Worker(options) for _ in range(options.workers)]
    try:
        next_s = time.monotonic()
        while any(worker.alive() for worker in workers):
            time.sleep(0.02)
            wake(workers)
            results.look()
            if time.monotonic() < next_s or counts.total() >= options.faults:
                if counts.total() >= options.faults:
                    wake(workers, all_of_them=True)
                continue
            next_s = time.monotonic() + random.uniform(0.1, 0.4)
            disturb(options, workers, counts)
            if counts.total() == options.faults // 2 and not counts["folder taken away"]:
                take_away(results)
                counts["folder taken away"] += 1
            # The launcher starts again what has ended early.
            for i, worker in enumerate(workers):
                if not worker.alive() and worker.process.returncode != 0:
                    workers[i] = Worker(options)
        # What stopped with its folder comes back, as a queue would send it.
        last = Worker(options)
        workers.append(last)
        if last.process.wait(options.patience_s) != 0:
            sys.exit(f"the last worker ended with status {last.process.returncode}:\n{last.said()}")
    finally:
        for worker in workers:
            worker.signal(signal.SIGKILL, with_children=True)
    return counts


def told(work):
    """How often each cell was settled and begun, as the workers say."""
    settled, begun, lost = collections.Counter(), collections.Counter(), 0
    for log in work.glob("worker-*.log"):
        text = log.read_text(errors="replace")
        settled.update(settled_cells(text))
        begun.update(re.findall(r"^start +([^\n]+?)(?: on cores?.*)?$", text, re.M))
        lost += len(re.findall(r"^lost ", text, re.M))
    return settled, begun, lost


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("cells", type=int)
    parser.add_argument("workers", type=int)
    parser.add_argument("faults", type=int)
    parser.add_argument("claims")
    options = parser.parse_args()
    options.step_s, options.lease, options.patience_s = 0.05, 2.0, 60
    draw_seed()
    options.work = pathlib.Path(tempfile.mkdtemp())
    write_space(options.work, options.cells, BATCH_SIZES)
    results = Results(options.work / "results")
    begin_s = time.monotonic()
    try:
        counts = campaign(options, results)
        results.look()
        settled, begun, lost = told(options.work)
        lines = {"cells": options.cells, "settled": len(results.seen), "torn": len(results.torn),
                 "doubled": len(results.doubled), "changed": len(results.changed), "lost": len(results.lost()),
                 "told twice": sum(count > 1 for cell, count in settled.items() if cell not in results.removed)}
    finally:
        shutil.rmtree(options.work, ignore_errors=True)
    again = begun.total() - options.cells
    print(f"{options.claims}: " + ", ".join(f"{count} {name}" for name, count in lines.items()) +
          f"; {again} measurements begun again after {dict(counts)}, {lost} given up by who was stopped; "
          f"{Worker.count} workers started, {options.workers} at a time, {time.monotonic() - begin_s:.0f} s")
    faults = sum(lines[name] for name in ("torn", "doubled", "changed", "lost", "told twice"))
    # A worker that is killed, stopped or cut off loses the one cell that it measures.
    causes = counts["killed"] + counts["stopped"] + counts["stopped with its cell"]
    causes += options.workers * counts["folder taken away"]
    if lines["settled"] != options.cells or faults or again > causes:
        sys.exit(1)


main()
