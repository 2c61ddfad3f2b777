"""A folder of results as it must be: what was seen as settled stays, byte for byte."""

import collections
import hashlib
import json
import os
import random
import re
import time

from simulated import Lost, label

YEAR_S = 365 * 86400
REGULAR = re.compile(r"[0-9a-f]{32}(\.\d+)?(\.json(\.(aside|failed|invalid)(\.\d+)?)?|(\.(failed|invalid)(\.\d+)?)?\.log)")


def digest_of(file):
    return hashlib.sha256(file.read_bytes()).hexdigest()


def damage(file):
    """As a disk, a foreign program or a user may do it."""
    content = bytearray(file.read_bytes())
    at, kind = random.randrange(max(1, len(content) - 2)), random.randrange(4)
    if kind == 0 or not content:
        content = content[:at]
    elif kind == 1:
        content[at:at + 512] = bytes(len(content[at:at + 512]))
    elif kind == 2:
        content[at] ^= 1 << random.randrange(8)
    else:
        content = b'{"schema": "somebody.else/1"}\n'
    file.write_bytes(content)


class Store:
    def __init__(self, path):
        self.path = path
        self.known = {}  # name -> digest, of what is settled
        self.damaged = {}  # name -> digest of the damaged content
        self.label = {}  # name -> the cell, as a sweep calls it
        self.damages = collections.Counter()  # by label

    def look(self):
        problems = []
        for file in sorted(self.path.glob("[!.]*/*.json")):
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
        problems += [f"{name} is gone" for name in self.known if not list(self.path.glob(f"[!.]*/{name}"))]
        if problems:
            raise Lost("\n".join(problems))

    def take(self, file, digest, result):
        self.label[file.name] = label(result["inputs"])
        before = self.known.get(file.name)
        if result["status"] == "failed":
            return [f"{file.name} was settled and is failed now"] if before else []
        self.known[file.name] = digest
        if before in (None, digest):
            return []
        # A run's valid result takes the place of an invalid one, which stands aside then.
        kept = any(digest_of(aside) == before for aside in file.parent.glob(file.name + ".invalid*"))
        return [] if kept and result["status"] == "valid" else [f"{file.name} was settled and has changed"]

    def label_all(self):
        """The cells of all results that stand there."""
        return {label(json.loads(file.read_bytes())["inputs"]) for file in self.path.glob("[!.]*/*.json")}

    def first_results(self):
        return [name for name in self.known if re.fullmatch(r"[0-9a-f]{32}\.json", name)]

    def damage(self):
        """A settled result. Returns whether there was one."""
        settled = self.first_results()
        if not settled:
            return False
        name = random.choice(settled)
        (file,) = self.path.glob(f"*/{name}")
        damage(file)
        del self.known[name]
        self.damaged[name] = digest_of(file)
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

    def end(self, cells, litter="no other"):
        """All cells are settled, each once, what was damaged stands aside, and nothing else lies about but `litter`."""
        self.look()
        files = list(self.path.glob("[!.]*/*"))
        names = {file.name for file in files}
        problems = [f"left lying about: {name}" for name in names
                    if not REGULAR.fullmatch(name) and not re.fullmatch(litter, name)]
        first = [name for name in names if re.fullmatch(r"[0-9a-f]{32}\.json", name)]
        if len(first) != cells:
            problems.append(f"{len(first)} cells have a result, not {cells}")
        problems += [f"{name} is not settled" for name in first if name not in self.known]
        for name in names:
            if sample := re.fullmatch(r"([0-9a-f]{32})\.(\d+)\.json", name):
                before = f"{sample[1]}.{int(sample[2]) - 1}.json" if int(sample[2]) > 2 else f"{sample[1]}.json"
                if before not in names:
                    problems.append(f"{name} without {before}")
        asides = {digest_of(file) for file in files if ".json." in file.name}
        problems += [f"damaged {name} was not kept aside" for name, digest in self.damaged.items() if digest not in asides]
        if problems:
            raise Lost("\n".join(sorted(problems)))
