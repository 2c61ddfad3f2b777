#!/usr/bin/env python3
"""Mutation testing: whether a module's own tests find random faults of one operator in it.

usage: tests/mutation.py [--count N] [--seed S] [--modules a,b,...] [--build FOLDER] [--jobs N]

Each fault is put into a source, `<module>_test` is built and run, and the source is restored. Faults that do not compile
are left out. A line for each fault, at the end the share that was found. Exit 1 if a fault lived. Run it in a worktree of
its own (`git worktree add --detach ../mutation`): it edits sources."""
import argparse
import os
import random
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Modules that need neither libtorch nor the program: a test builds and starts in seconds.
MODULES = ("advise base campaign catalog checkpoint data families huggingface jinja measure plan predict ranks results simulate space sweep "
           "tokenizer trackers").split()
SWAPS = [(" < ", " <= "), (" <= ", " < "), (" > ", " >= "), (" >= ", " > "), (" == ", " != "), (" != ", " == "),
         (" + ", " - "), (" - ", " + "), (" * ", " / "), (" += ", " -= "), (" && ", " || "), (" || ", " && "),
         ("true", "false"), ("false", "true")]
# Text that is no code: comments, strings, includes.
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|^#[^\n]*', re.M | re.S)


def folder_of(module):
    """A module has a folder in a room, or is the room of its name."""
    return next((ROOT / "src").glob(f"*/{module}/"), ROOT / "src" / module)


def code_of(text):
    """The text with everything else blanked, so that positions stay."""
    return NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def faults_of(path):
    code = code_of(path.read_text(encoding="utf-8"))
    for old, new in SWAPS:
        for found in re.finditer(re.escape(old) if old[0] == " " else rf"\b{old}\b", code):
            yield path, found.start(), old, new


def draw(modules, count, seed):
    """Every module as often as any other, whatever its size."""
    dice = random.Random(seed)
    faults = {}
    for module in modules:
        found = [fault for path in sorted(folder_of(module).glob("*.cpp")) for fault in faults_of(path)]
        dice.shuffle(found)
        faults[module] = found
    while count > 0 and any(faults.values()):
        for module in modules:
            if faults[module] and count > 0:
                count -= 1
                yield module, faults[module].pop()


def configure(build):
    options = ["-DSFTBENCH_TESTS=ON", "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_CXX_FLAGS_DEBUG=-O0"]
    subprocess.run(["cmake", "-G", "Ninja", "-B", build, "-S", ROOT, *options], check=True, stdout=subprocess.DEVNULL)


def compiles(build, module, jobs):
    command = ["cmake", "--build", build, "-j", str(jobs), "--target", f"{module}_test"]
    # A cache would keep the faults.
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env={**os.environ, "CCACHE_DISABLE": "1"}).returncode == 0


def tests_pass(build, module):
    command = [build / "bin" / f"{module}_test", "--gtest_brief=1", "--gtest_fail_fast"]
    try:
        return subprocess.run(command, cwd=build, timeout=300, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def outcome(build, module, fault, jobs):
    path, at, old, new = fault
    text = path.read_text(encoding="utf-8")
    try:
        path.write_text(text[:at] + new + text[at + len(old):], encoding="utf-8")
        if not compiles(build, module, jobs):
            return "does not compile"
        return "lived" if tests_pass(build, module) else "found"
    finally:
        path.write_text(text, encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modules", type=lambda text: text.split(","), default=MODULES)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "mutation")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    build = given.build.resolve()
    configure(build)
    for module in given.modules:
        if not compiles(build, module, given.jobs) or not tests_pass(build, module):
            sys.exit(f"{module}: its tests do not pass without a fault")
    counts = {"found": 0, "lived": 0, "does not compile": 0}
    for module, fault in draw(given.modules, given.count, given.seed):
        path, at, old, new = fault
        text = path.read_text(encoding="utf-8")
        line = text.count("\n", 0, at)
        how = outcome(build, module, fault, given.jobs)
        counts[how] += 1
        print(f"{how:<16} {path.relative_to(ROOT)}:{line + 1}: {new.strip()} for {old.strip()}: {text.splitlines()[line].strip()}",
              flush=True)
    tried = counts["found"] + counts["lived"]
    print(f"{counts['found']} of {tried} faults found ({100 * counts['found'] / max(tried, 1):.0f} %), seed {given.seed}")
    return counts["lived"] > 0


if __name__ == "__main__":
    sys.exit(main())
