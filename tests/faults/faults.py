#!/usr/bin/env python3
"""Disturbs the program, and holds it to its promises: no finished measurement and no saved checkpoint is lost, torn,
doubled or mislabeled, whatever happens beside it.

    faults.py SFTBENCH                   a short run of each kind, about three minutes
    faults.py SFTBENCH --minutes 600     each kind again and again, for so long

Each kind says how many faults were tried, and what they were. What breaks a promise ends the kind as lost, with the seed that
repeats its choices, if not its instants. Exits with 1 when anything was lost.
"""

import argparse
import collections
import pathlib
import random
import shutil
import sys
import tempfile
import time

from disks import try_full_results, try_full_saving, try_io, try_planted
from injection import try_secrets, try_texts
from saving import try_checkpoints, try_saving, try_strangers
from simulated import Lost
from sweeps import try_sweeps
from workers import try_workers

# What is disturbed, how many times in a short run, and in one round of a long one.
KINDS = {
    "sweeps and runs killed": (try_sweeps, 60, 200),
    "workers killed, stopped, cut off": (try_workers, 16, 16),
    "runs killed while they save": (try_saving, 12, 40),
    "damaged checkpoints": (try_checkpoints, 12, 60),
    "strangers at the ports of ranks": (try_strangers, 15, 400),
    "calls of a disk that fails": (try_io, 60, 1000),
    "a full disk under results": (try_full_results, 4, 20),
    "a full disk while saving": (try_full_saving, 6, 30),
    "planted in the place of a result": (try_planted, 9, 30),
    "texts that a shell would act on": (try_texts, 100, 1000),
    "places where a secret could stand": (try_secrets, 1, 200),
}


def one_round(name, program, faults, seed):
    """Counts by what was done, and what was lost; None: nothing."""
    random.seed(seed)
    work = pathlib.Path(tempfile.mkdtemp())
    try:
        return KINDS[name][0](program, work, lambda done: done >= faults), None
    except Lost as lost:
        return collections.Counter(), str(lost)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--kinds", help="numbers of kinds, from 1 on: 1,3; default: all")
    options = parser.parse_args()
    program = options.program.resolve()
    names = list(KINDS)
    if options.kinds:
        names = [names[int(number) - 1] for number in options.kinds.split(",")]
    begin, seed, lost = time.monotonic(), options.seed, 0
    tried = {name: collections.Counter() for name in names}
    seconds = collections.Counter()
    print(f"seed {seed}", flush=True)
    while True:
        for name in names:
            _, few, many = KINDS[name]
            start = time.monotonic()
            counts, problem = one_round(name, program, many if options.minutes else few, seed)
            seconds[name] += time.monotonic() - start
            tried[name].update(counts)
            if problem:
                lost += 1
                print(f"LOST, {name}, seed {seed}: {problem}", flush=True)
            elif not options.minutes or time.monotonic() - begin > 60 * options.minutes:
                print(f"{name}: {tried[name].total()} tried in {seconds[name]:.0f} s, all held: "
                      + ", ".join(f"{count} {what}" for what, count in sorted(tried[name].items())), flush=True)
            seed += 1
        if time.monotonic() - begin >= 60 * options.minutes:
            break
    total = sum(counts.total() for counts in tried.values())
    print(f"{total} faults tried in {time.monotonic() - begin:.0f} s, {lost} rounds lost")
    sys.exit(1 if lost else 0)


if __name__ == "__main__":
    main()
