"""Sweeps, their children and runs that are killed at random instants, all on one folder of results.

Between a kill and the next start results are damaged, files get dates of hosts with other clocks, and now and then the
folder vanishes under everybody. Whatever happens: no result that was settled changes, none is torn, nothing is lost, no
cell is settled twice, and in the end one more sweep completes the space and leaves nothing lying about.
"""

import collections
import os
import random
import re
import shutil
import signal
import time

from simulated import BATCH_SIZES, Lost, Program, settled_cells, simulated, write_space
from store import Store

STATUSES = {"run": {0, 3, 4, 5, 130, -signal.SIGKILL, -signal.SIGTERM}, "sweep": {0, 4}}


class Actor:
    """A sweep or a run that is started again and again."""

    def __init__(self, kind, program, work, cells, step_s):
        self.kind, self.work, self.cells = kind, work, cells
        self.words = simulated(program, work, kind, step_s)
        self.start()

    def start(self):
        words = list(self.words)
        if self.kind == "run":
            fault = random.choice([[], [], [], ["fail=NCCL"], ["oom_gpu_above_gib=0.001"]])
            words += ["--entity", str(random.randrange(self.cells))] + [w for f in fault for w in ("--simulate", f)]
        self.program = Program(self.kind, self.work, words)
        self.process = self.program.process

    def begun(self):
        return self.kind == "run" or self.program.sweeps()

    def kill(self, sign):
        """False when it had ended by itself, which it must have done well."""
        if self.program.alive():
            self.process.send_signal(sign)
            self.process.wait(30)
            return True
        self.program.end(0, STATUSES[self.kind])
        return False


def vanish(store, actors, cells):
    """Takes the folder away under everybody, and back when all have noticed."""
    deadline = time.monotonic() + 10
    while not all(actor.begun() for actor in actors) and time.monotonic() < deadline:
        time.sleep(0.01)
    concerned = [actor for actor in actors if actor.kind == "sweep" and actor.program.alive()]
    away = store.path.with_name("away")
    store.path.rename(away)
    for actor in actors:
        actor.program.end(60, STATUSES[actor.kind])
    for actor in concerned:
        said = actor.program.said()
        complete = f"{cells} of {cells} cells are settled" in said
        if complete and len(list(away.glob(f"*/{'?' * 32}.json"))) == cells:
            continue  # it had looked already, and was right
        if actor.process.returncode != 4 or not re.search(r"was removed|was replaced|(is|are) gone", said):
            raise Lost(f"the folder vanished, status {actor.process.returncode}:\n{said}")
    if store.path.exists():  # what was written in its place is whole, too
        Store(store.path).look()
        shutil.rmtree(store.path)
    away.rename(store.path)
    for actor in actors:
        actor.program.log.unlink()  # what they said of the other folder does not count
        actor.start()


def told_once(work, store):
    """No cell was settled by two sweeps, unless its result was damaged in between."""
    told = collections.Counter()
    for log in work.glob("sweep-*.log"):
        told.update(settled_cells(log.read_text()))
    twice = [cell for cell, count in told.items() if count > 1 + store.damages[cell]]
    if twice or not told:
        raise Lost(f"settled more than once: {twice}" if twice else "no sweep said anything")


def disturb(store, actors, cells, counts):
    """One fault, and the start of what it ended."""
    time.sleep(random.random() * 0.4)
    actor = random.choice(actors)
    children = actor.program.children()
    if children and random.random() < 0.5:
        try:
            os.kill(random.choice(children), signal.SIGKILL)
            counts["children killed"] += 1
        except ProcessLookupError:
            pass
        if actor.program.alive():
            return
    killed = actor.kill(random.choice([signal.SIGKILL] * 9 + [signal.SIGTERM]))
    counts[f"{actor.kind}s killed"] += killed
    store.look()
    # A sweep that has settled all gets work.
    for _ in range(10 if actor.kind == "sweep" and not killed else random.random() < 0.2):
        counts["results damaged"] += store.damage()
    if random.random() < 0.2:
        store.redate()
    actor.start()
    if random.random() < 0.02 or (counts.total() > 20 and not counts["folder taken away"]):
        store.look()
        vanish(store, actors, cells)
        counts["folder taken away"] += 1


def try_sweeps(program, work, enough, cells=120, step_s=0.1):
    write_space(work, cells, BATCH_SIZES)
    store, counts = Store(work / "results"), collections.Counter()
    actors = [Actor(kind, program, work, cells, step_s) for kind in ("sweep", "sweep", "run")]
    try:
        while not enough(counts.total()):
            disturb(store, actors, cells, counts)
        for actor in actors:
            actor.kill(signal.SIGKILL)
        actors.append(Actor("sweep", program, work, cells, 0))
        actors[-1].program.end(300, {0})
        store.end(cells)
        told_once(work, store)
    finally:
        for actor in actors:
            actor.process.kill()
    return counts
