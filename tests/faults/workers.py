"""Workers on one folder that are killed, stopped for longer than their lease (alone or with the cell that they measure),
and whose folder vanishes for a while. In the end each cell has one settled result, none was measured twice without one of
these causes, and none is torn, changed or lost.
"""

import collections
import os
import random
import re
import shutil
import signal
import time

from simulated import Lost, Program, settled_cells, simulated, write_space
from store import Store

LEASE_S = 2.0
BATCH_SIZES = [2, 4, 6, 8]


class Worker(Program):
    """In a group of its own, so that its children can be stopped with it."""

    def __init__(self, program, work, claims):
        super().__init__("worker", work, simulated(program, work, step_s=0.05)
                         + ["--worker", "--locking", claims, "--lease", str(LEASE_S)], start_new_session=True)
        self.stopped_until = None

    def signal(self, sign, with_children=False):
        """The children have process groups of their own."""
        for pid in [self.process.pid] + (self.children() if with_children else []):
            try:
                os.kill(pid, sign)
            except ProcessLookupError:
                pass


def disturb(workers, counts):
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
        worker.stopped_until = time.monotonic() + LEASE_S * random.uniform(1.5, 3)
    counts[kind] += 1


def wake(workers, all_of_them=False):
    for worker in workers:
        if worker.stopped_until and (all_of_them or time.monotonic() > worker.stopped_until):
            worker.signal(signal.SIGCONT, with_children=True)
            worker.stopped_until = None


def take_away(store, removed):
    """The folder is gone for a while, and comes back without what was written in its place meanwhile."""
    away = store.path.with_name("away")
    store.path.rename(away)
    time.sleep(0.3)
    while True:
        removed.update(Store(store.path).label_all())
        shutil.rmtree(store.path, ignore_errors=True)
        try:
            return away.rename(store.path)
        except OSError:
            continue  # one more was written


def campaign(program, work, store, claims, enough, counts, removed):
    workers = [Worker(program, work, claims) for _ in range(4)]
    try:
        next_s = time.monotonic()
        while any(worker.alive() for worker in workers):
            time.sleep(0.02)
            over = enough(counts.total())
            wake(workers, all_of_them=over)
            store.look()
            if time.monotonic() < next_s or over:
                continue
            next_s = time.monotonic() + random.uniform(0.1, 0.4)
            disturb(workers, counts)
            if counts.total() > 7 and not counts["folder taken away"]:
                take_away(store, removed)
                counts["folder taken away"] += 1
            for i, worker in enumerate(workers):  # the launcher starts again what has ended early
                if not worker.alive() and worker.process.returncode != 0:
                    workers[i] = Worker(program, work, claims)
        # What stopped with its folder comes back, as a queue would send it.
        workers.append(Worker(program, work, claims))
        workers[-1].end(120, {0})
    finally:
        for worker in workers:
            worker.signal(signal.SIGKILL, with_children=True)


def require_measured_once(work, cells, counts, removed):
    settled, begun = collections.Counter(), 0
    for log in work.glob("worker-*.log"):
        text = log.read_text(errors="replace")
        settled.update(settled_cells(text))
        begun += len(re.findall(r"^start +([^\n]+?)(?: on cores?.*)?$", text, re.M))
    twice = [cell for cell, count in settled.items() if count > 1 and cell not in removed]
    # A worker that is killed, stopped or cut off loses the one cell that it measures.
    causes = counts.total() + 3 * counts["folder taken away"]
    if twice or begun - cells > causes:
        raise Lost(f"settled twice: {twice}; {begun - cells} measurements begun again after {dict(counts)}")


def try_workers(program, work, enough, cells=200):
    counts, removed, claims = collections.Counter(), set(), random.choice(["leases", "locks"])
    write_space(work, cells, BATCH_SIZES)
    store = Store(work / "results")
    campaign(program, work, store, claims, enough, counts, removed)
    store.end(cells)
    doubled = [name for name in store.known if name not in store.first_results()]
    if doubled:
        raise Lost(f"{claims}: measured by two: {doubled}")
    require_measured_once(work, cells, counts, removed)
    return counts
