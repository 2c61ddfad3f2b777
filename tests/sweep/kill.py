"""Kills sweeps, their children and runs at random instants, all on one folder of results; see kill.sh.

Between a kill and the next start results are damaged, files get dates of hosts with other clocks, and now and then the
folder vanishes under everybody. Whatever happens: no result that was settled changes, none is torn, nothing is lost, no
cell is settled twice, and in the end one more sweep completes the space and leaves nothing lying about.
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
import subprocess
import sys
import tempfile
import time

from simulated import Program, draw_seed, label, settled_cells, write_space

BATCH_SIZES = [2, 4, 5, 6, 8]  # on two GPUs: 5 breaks rule 1
YEAR_S = 365 * 86400
RUN_STATUSES = {0, 3, 4, 5, 130, -signal.SIGKILL, -signal.SIGTERM}

class Folder:
    """The results as they must be: what was seen as settled stays, byte for byte."""

    def __init__(self, path):
        self.path = path
        self.known = {}  # name -> digest, of what is settled
        self.damaged = {}  # name -> digest of the damaged content
        self.label = {}  # name -> the cell, as a sweep calls it
        self.damages = collections.Counter()  # by label

    def look(self):
        problems = []
        for file in sorted(self.path.glob("*/*.json")):
            try:
                content = file.read_bytes()
            except FileNotFoundError:
                continue  # a damaged one that is being put aside; others are missed below
            digest = hashlib.sha256(content).hexdigest()
            if self.damaged.get(file.name) == digest:
                continue
            try:
                result = json.loads(content)
            except ValueError as error:
                problems.append(f"{file.name} is torn: {error}")
                continue
            problems += self.take(file, digest, result)
        problems += [f"{name} is gone" for name in self.known if not list(self.path.glob(f"*/{name}"))]
        if problems:
            sys.exit("\n".join(problems))

    def take(self, file, digest, result):
        self.label[file.name] = label(result["inputs"])
        before = self.known.get(file.name)
        if result["status"] == "failed":
            return [f"{file.name} was settled and is failed now"] if before else []
        self.known[file.name] = digest
        if before in (None, digest):
            return []
        # A run's valid result takes the place of an invalid one, which stands aside then.
        asides = file.parent.glob(file.name + ".invalid*")
        kept = any(hashlib.sha256(aside.read_bytes()).hexdigest() == before for aside in asides)
        return [] if kept and result["status"] == "valid" else [f"{file.name} was settled and has changed"]

    def damage(self):
        """As a disk, a foreign program or a user may do it. Returns whether there was something to damage."""
        settled = [name for name in self.known if "." not in name[: -len(".json")]]
        if not settled:
            return False
        name = random.choice(settled)
        (file,) = self.path.glob(f"*/{name}")
        content = bytearray(file.read_bytes())
        kind = random.randrange(4)
        if kind == 0:
            content = content[: random.randrange(len(content) - 2)]
        elif kind == 1:
            begin = random.randrange(len(content) // 2)
            content[begin : begin + 512] = bytes(len(content[begin : begin + 512]))
        elif kind == 2:
            content[random.randrange(len(content))] ^= 1 << random.randrange(8)
        else:
            content = b'{"schema": "somebody.else/1"}\n'
        file.write_bytes(content)
        del self.known[name]
        self.damaged[name] = hashlib.sha256(content).hexdigest()
        self.damages[self.label[name]] += 1
        return True

    def redate(self):
        """As hosts do whose clocks are years ahead or behind."""
        files = [file for file in self.path.glob("*/*") if file.is_file()]
        for file in random.sample(files, min(5, len(files))):
            when = time.time() + random.choice([-30, -1, 1, 30]) * YEAR_S
            try:
                os.utime(file, (when, when))
            except FileNotFoundError:
                pass  # a lock or a log, gone meanwhile

    def end(self, cells):
        self.look()
        files = list(self.path.glob("*/*"))
        names = {file.name for file in files}
        regular = re.compile(r"[0-9a-f]{32}(\.\d+)?(\.json(\.(aside|failed|invalid)(\.\d+)?)?|"
                             r"(\.(failed|invalid)(\.\d+)?)?\.log)")
        problems = [f"left lying about: {name}" for name in names if not regular.fullmatch(name)]
        first = [name for name in names if re.fullmatch(r"[0-9a-f]{32}\.json", name)]
        if len(first) != cells:
            problems.append(f"{len(first)} cells have a result, not {cells}")
        problems += [f"{name} is not settled" for name in first if name not in self.known]
        for name in names:
            if sample := re.fullmatch(r"([0-9a-f]{32})\.(\d+)\.json", name):
                before = f"{sample[1]}.{int(sample[2]) - 1}.json" if int(sample[2]) > 2 else f"{sample[1]}.json"
                if before not in names:
                    problems.append(f"{name} without {before}")
        asides = {hashlib.sha256(file.read_bytes()).hexdigest() for file in files if ".json." in file.name}
        problems += [f"damaged {name} was not kept aside" for name, digest in self.damaged.items()
                     if digest not in asides]
        if problems:
            sys.exit("\n".join(sorted(problems)))
        return {"repeats": sum(re.fullmatch(r"[0-9a-f]{32}\.\d+\.json", name) is not None for name in names),
                "aside": sum(".json." in name for name in names)}


class Actor:
    """A sweep or a run that is started again and again."""

    def __init__(self, kind, options):
        self.kind = kind
        self.options = options
        self.start()

    def start(self):
        self.program = Program(self.kind, self.options.work, self.command())
        self.process = self.program.process

    def command(self):
        o = self.options
        words = [o.program, self.kind, o.work / "space.yaml", "-o", o.work / "results", "--backend", "simulate",
                 "--simulate", f"sleep_s={o.step_s}"]
        if self.kind == "sweep":
            return words + ["--max-quick-failures", "0"]
        fault = random.choice([[], [], [], ["fail=NCCL"], ["oom_gpu_above_gib=0.001"]])
        return words + ["--entity", str(random.randrange(o.cells))] + [w for f in fault for w in ("--simulate", f)]

    def begun(self):
        return self.kind == "run" or self.program.sweeps()

    def kill(self, sign):
        """False when it had ended by itself, which it must have done well."""
        if self.program.alive():
            self.process.send_signal(sign)
            self.process.wait(30)
            return True
        self.check(self.process.returncode)
        return False

    def check(self, status):
        if status in (RUN_STATUSES if self.kind == "run" else {0, 4}):
            return
        sys.exit(f"{self.kind} ended with status {status}:\n{self.program.said()}")


def vanish(folder, actors, cells):
    """Takes the folder away under everybody, and back when all have noticed."""
    deadline = time.monotonic() + 10
    while not all(actor.begun() for actor in actors) and time.monotonic() < deadline:
        time.sleep(0.01)
    concerned = [actor for actor in actors if actor.kind == "sweep" and actor.program.alive()]
    away = folder.path.with_name("away")
    folder.path.rename(away)
    for actor in actors:
        try:
            actor.process.wait(60)
        except subprocess.TimeoutExpired:
            sys.exit(f"{actor.kind} does not notice that the folder is gone:\n{actor.program.said()}")
    for actor in concerned:
        said = actor.program.said()
        complete = f"{cells} of {cells} cells are settled" in said
        if complete and actor.process.returncode in (0, 4) and len(list(away.glob(f"*/{'?' * 32}.json"))) == cells:
            continue  # it had looked already, and was right
        if actor.process.returncode != 4 or not re.search(r"was removed|was replaced|(is|are) gone", said):
            sys.exit(f"the folder vanished, status {actor.process.returncode}:\n{said}")
    beside = Folder(folder.path)  # what was written in its place is whole, too
    if folder.path.exists():
        beside.look()
        shutil.rmtree(folder.path)
    away.rename(folder.path)
    for actor in actors:
        actor.program.log.unlink()  # what they said of the other folder does not count
        actor.start()
    return len(concerned)


def told_once(work, folder):
    """No cell was settled by two sweeps, unless its result was damaged in between."""
    told = collections.Counter()
    for log in work.glob("sweep-*.log"):
        told.update(settled_cells(log.read_text()))
    if not told:
        sys.exit("no sweep said anything")
    twice = [cell for cell, count in told.items() if count > 1 + folder.damages[cell]]
    if twice:
        sys.exit(f"settled more than once: {twice}")


def loop(options, folder, actors):
    counts = collections.Counter()
    while min(counts["parents"], counts["children"]) < options.kills:
        time.sleep(random.random() * 0.3)
        actor = random.choice(actors)
        children = actor.program.children() if counts["children"] < options.kills else []
        if children:
            try:
                os.kill(random.choice(children), signal.SIGKILL)
                counts["children"] += 1
            except ProcessLookupError:
                pass
        time.sleep(random.random() * 0.2)
        if counts["parents"] < options.kills or random.random() < 0.1:
            killed = actor.kill(random.choice([signal.SIGKILL] * 9 + [signal.SIGTERM]))
            if killed:
                counts["parents"] += 1
                counts[actor.kind + "s"] += 1
            folder.look()
            # A sweep that has settled all gets work.
            for _ in range(10 if actor.kind == "sweep" and not killed else random.random() < 0.2):
                counts["damages"] += folder.damage()
            if random.random() < 0.2:
                folder.redate()
            actor.start()
        elif not actor.program.alive():
            actor.kill(0)
            folder.look()
            counts["damages"] += folder.damage()
            actor.start()
        if random.random() < 0.02 or counts["parents"] == options.kills // 2 and not counts["vanished"]:
            folder.look()
            vanish(folder, actors, options.cells)
            counts["vanished"] += 1
    return counts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("cells", type=int)
    parser.add_argument("kills", type=int)
    parser.add_argument("sweeps", type=int)
    parser.add_argument("runs", type=int)
    parser.add_argument("step_s", type=float)
    options = parser.parse_args()
    draw_seed()
    options.work = pathlib.Path(tempfile.mkdtemp())
    write_space(options.work, options.cells, BATCH_SIZES)
    folder = Folder(options.work / "results")
    actors = [Actor(kind, options) for kind in ["sweep"] * options.sweeps + ["run"] * options.runs]
    try:
        counts = loop(options, folder, actors)
        for actor in actors:
            actor.kill(signal.SIGKILL)
        options.step_s = 0
        last = Actor("sweep", options)
        actors.append(last)
        if last.process.wait() != 0:
            sys.exit(f"the last sweep ended with status {last.process.returncode}:\n{last.program.said()}")
        found = folder.end(options.cells)
        told_once(options.work, folder)
    finally:
        for actor in actors:
            actor.process.kill()
        shutil.rmtree(options.work, ignore_errors=True)
    print(f"{options.cells} cells: {counts['parents']} parents ({counts['sweeps']} sweeps, {counts['runs']} runs) and "
          f"{counts['children']} children killed, {Program.count} starts, {options.sweeps} sweeps and {options.runs} runs "
          f"at a time; {counts['damages']} results damaged, the folder taken away {counts['vanished']} times; "
          f"{found['repeats']} repeats, {found['aside']} results aside")


main()
