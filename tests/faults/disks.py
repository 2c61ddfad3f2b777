"""A disk that fails or is full (io_faults.c), and what lies in the place of a result.

No result is torn, none that was settled is lost, and a sweep on a sound disk completes the space. What was trained is
measured, also where it cannot be saved.
"""

import collections
import json
import os
import pathlib
import random
import shutil
import subprocess

from saving import Runs
from simulated import BATCH_SIZES, Lost, Program, simulated, write_space
from store import Store

CELLS = 40


def io_faults(work):
    library = work / "io_faults.so"
    source = pathlib.Path(__file__).with_name("io_faults.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library


def failing(work, folder, **settings):
    return {**os.environ, "LD_PRELOAD": str(io_faults(work)), "FAULT_FOLDER": str(folder), "FAULT_LOG": str(work / "faults"),
            **{f"FAULT_{name.upper()}": str(value) for name, value in settings.items()}}


def faults_of(work):
    log = work / "faults"
    return log.stat().st_size if log.exists() else 0


def complete(program, work, store):
    """On a sound disk. Temporary files that could not be removed are all that may be left."""
    Program("sweep", work, simulated(program, work)).end(120, {0})
    store.end(CELLS, litter=r"\..*|.*\.(growing\.log|lock)")
    shutil.rmtree(store.path)


def remove(file):
    shutil.rmtree(file) if file.is_dir() and not file.is_symlink() else file.unlink()


def try_io(program, work, enough):
    write_space(work, CELLS, BATCH_SIZES)
    while not enough(faults_of(work)):
        store = Store(work / "results")
        for _ in range(3):
            environment = failing(work, store.path, rate=random.choice([20, 50, 150]))
            Program("sweep", work, simulated(program, work), env=environment).end(120, {0, 2, 4})
            store.look()
        complete(program, work, store)
    return collections.Counter({"calls failed": faults_of(work)})


def try_full_results(program, work, enough):
    counts = collections.Counter()
    write_space(work, CELLS, BATCH_SIZES)
    while not enough(counts.total()):
        store = Store(work / "results")
        sweep = Program("sweep", work, simulated(program, work),
                        env=failing(work, store.path, room=random.randrange(100, 200_000)))
        if sweep.end(120, {0, 2, 4}) != 0 and "No space left on device" not in sweep.said():
            raise Lost(f"it does not say that the disk is full:\n{sweep.said()}")
        store.look()
        complete(program, work, store)
        counts["disks filled"] += 1
    return counts


def try_full_saving(program, work, enough):
    """However much room there is: the measurement stands there whenever training has ended."""
    counts, runs = collections.Counter(), Runs(program, work, 1)
    bytes_saved = sum(file.stat().st_size for folder in (runs.kept, runs.model) for file in folder.rglob("*"))
    while not enough(counts.total()):
        runs.clear()
        folder = random.choice([runs.kept, runs.model, work / ".model.saving"])
        run = runs.start(env=failing(work, folder, room=random.randrange(bytes_saved // 4)))
        status = run.end(120, {0, 4})
        results = [json.loads(file.read_text()) for file in (work / "results").rglob("*.json")]
        trained = [result for result in results if result["status"] == "valid"]
        if not trained and "No space left" not in run.said() + json.dumps(results):
            raise Lost(f"nothing is measured, status {status}:\n{run.said()}")
        if trained and (len(trained[0]["extra"]["loss"]) != 12 or ("unsaved" in trained[0]["extra"]) != (status == 4)):
            raise Lost(f"status {status}, {trained[0]['extra'].get('unsaved')}:\n{run.said()}")
        counts["measured" if trained else "ended before"] += 1
    return counts


def plant(place, work):
    kind = random.choice(["FIFO", "link", "dangling link", "folder", "device", "nothing to read", "huge"])
    outside = work / "outside"
    outside.write_text("of somebody else")
    if kind == "FIFO":
        os.mkfifo(place)
    elif kind == "link":
        place.symlink_to(outside)
    elif kind == "dangling link":
        place.symlink_to(work / "nowhere")
    elif kind == "folder":
        place.mkdir()
        (place / "mine").write_text("mine")
    elif kind == "device":
        place.symlink_to("/dev/full")
    elif kind == "nothing to read":
        place.write_text("")
        place.chmod(0)
    else:
        with place.open("wb") as file:
            file.truncate(1 << 36)
    return kind


def try_planted(program, work, enough):
    counts = collections.Counter()
    write_space(work, CELLS, BATCH_SIZES)
    store = Store(work / "results")
    Program("sweep", work, simulated(program, work)).end(120, {0})
    store.look()
    names = store.first_results()
    while not enough(counts.total()):
        victims = random.sample(names, 3)
        for name in victims:
            (file,) = store.path.glob(f"*/{name}")
            file.unlink()
            file.with_suffix(".log").unlink(missing_ok=True)
            store.known.pop(name, None)
            counts[plant(file, work)] += 1
        Program("sweep", work, simulated(program, work)).end(60, {0, 4})
        if (work / "outside").read_text() != "of somebody else" or (work / "nowhere").exists():
            raise Lost("a link was written through")
        for file in list(store.path.glob("*/*")):  # where it was planted, or put aside
            sound = file.is_file() and not file.is_symlink() and 0 < file.stat().st_size < 1 << 36
            if ".json" in file.name and (not sound or ".json." in file.name):
                remove(file)
        Program("sweep", work, simulated(program, work)).end(60, {0})
        store.end(CELLS)
    return counts
