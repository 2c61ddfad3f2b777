#!/usr/bin/env python3
"""Mutation testing: whether tests find random faults of one operator.

usage: tests/mutation/mutation.py [--count N] [--seed S] [--modules a,b,...] [--build FOLDER] [--jobs N]

All faults are compiled at once, each behind its number in SFTBENCH_FAULT (fault.h). Those that do not compile are left out.
A module's own tests have to find its faults. A line for each fault, with its number, at the end their share. Exit 1 if a fault
lived. Run it in a worktree of its own (`git worktree add --detach ../mutation`): it edits sources."""
import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Modules without libtorch: their tests start at once.
MODULES = ("advise base campaign catalog checkpoint data families huggingface jinja measure plan predict ranks results simulate space sweep "
           "tokenizer trackers").split()
OTHER = {"&&": "||", "||": "&&", "true": "false", "false": "true"}
FAULT = re.compile(r"(?<= )(?:[<>=!]=|\+=|[<>+*-]|&&|\|\|)(?= )|\b(?:true|false)\b")
# Text that is no code: comments, strings, includes.
NO_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'|^#[^\n]*""", re.M | re.S)


def end_of_operand(code, at, step):
    """Where an operand of && or || ends: at a bracket that is not its own, or at an operator that binds less."""
    depth = 0
    while 0 <= at < len(code):
        c = code[at]
        depth += {"([{": 1, ")]}": -1}.get(next((kind for kind in ("([{", ")]}") if c in kind), ""), 0) * step
        assigns = c == "=" and code[at - 1] not in "=<>!" and code[at + 1] != "="
        chooses = c == "?" or (c == ":" and ":" not in (code[at - 1], code[at + 1]))
        word = re.match(r"\breturn\b|\|\|", code[at:at + 7])
        if depth < 0 or (depth == 0 and (c in ";," or assigns or chooses or word)):
            return at if step > 0 else at + {"r": 6, "|": 2}.get(c, 1)
        at += step
    return at


def faults_of(path):
    """(path, begin, end, text in place of what is there, operator, its line) of each fault; @ is its number."""
    text = path.read_text(encoding="utf-8")
    code = NO_CODE.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)
    for found in FAULT.finditer(code):
        old, begin, end = found.group(), found.start(), found.end()
        if old in ("&&", "||"):
            begin, end = end_of_operand(code, begin - 1, -1), end_of_operand(code, end, 1)
            left, right = (re.sub(r"//[^\n]*|\n", " ", side) for side in (text[begin:found.start()], text[found.end():end]))
            faulty = f" (sftbench::fault::on(@) ? ({left}) {OTHER[old]} ({right}) : ({left}) {old} ({right}))" + "\n" * text.count("\n", begin, end)
        elif old in OTHER:
            faulty = f"(sftbench::fault::on(@) != {old})"
        else:
            faulty = f"{old} sftbench::fault::Mark<@>() {old}"
        yield path, begin, end, faulty, old, text.count("\n", 0, found.start()) + 1


def draw(modules, count, seed):
    """Every module as often as any other, whatever its size, and no fault within another."""
    dice = random.Random(seed)
    left, taken = {}, []
    for module in modules:
        folder = next((ROOT / "src").glob(f"*/{module}/"), ROOT / "src" / module)  # a folder of a room, or a room
        left[module] = [fault for path in sorted(folder.glob("*.cpp")) for fault in faults_of(path)]
        dice.shuffle(left[module])
    while len(taken) < count and any(left.values()):
        for module in [module for module in modules if left[module]][:count - len(taken)]:
            fault = left[module].pop()
            if all(fault[0] != other[0] or fault[2] <= other[1] or other[2] <= fault[1] for _, other in taken):
                taken.append((module, fault))
    return dict(enumerate(taken))


def compile_all(build, faults, modules, jobs):
    """Leaves out of `faults` what does not compile."""
    subprocess.run(["cmake", "--preset", "release", "-B", build, "-S", ROOT], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)
    command = ["cmake", "--build", build, "-j", str(jobs), "--target", *(f"{module}_test" for module in modules), "--", "-k", "0"]
    originals = {path: path.read_text(encoding="utf-8") for path in {fault[0] for _, fault in faults.values()}}
    try:
        while True:
            for path, text in originals.items():
                here = [(fault, number) for number, (_, fault) in faults.items() if fault[0] == path]
                for (_, begin, end, faulty, _, _), number in sorted(here, reverse=True):
                    text = text[:begin] + faulty.replace("@", str(number)) + text[end:]
                header = Path(__file__).with_name("fault.h")
                path.write_text(f'#include "{header}"\n#line 1 "{path}"\n{text}', encoding="utf-8")
            built = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if built.returncode == 0:
                return
            named = set(re.findall(r"(/\S+\.cpp):(\d+):\d+: +(?:error|required)", built.stdout))
            at_line = [number for number, (_, fault) in faults.items() if (str(fault[0]), str(fault[5])) in named]
            files = {path for path, _ in named}  # of an error that names another line
            bad = at_line or [number for number, (_, fault) in faults.items() if str(fault[0]) in files]
            if not bad:
                sys.exit("\n".join(line for line in built.stdout.splitlines() if "error" in line))
            for number in bad:
                print("does not compile:", *faults.pop(number)[1][::5])
    finally:
        for path, text in originals.items():
            path.write_text(text, encoding="utf-8")


def seconds_to_pass(build, suite, number, limit_s):
    """None where a test fails, or the suite does not end in time."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as own:  # a suite may run beside itself
        surroundings = {**os.environ, "SFTBENCH_FAULT": str(number), "TEST_TMPDIR": own, "TMPDIR": own}
        try:
            ended = subprocess.run([build / "bin" / f"{suite}_test", "--gtest_brief=1", "--gtest_fail_fast"], cwd=build, timeout=limit_s,
                                   env=surroundings, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return None
    return time.monotonic() - begin if ended.returncode == 0 else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--modules", type=lambda text: text.split(","), default=MODULES)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "mutation")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()
    build = given.build.resolve()
    faults = draw(given.modules, given.count, given.seed)
    compile_all(build, faults, given.modules, given.jobs)
    usual_s = {suite: seconds_to_pass(build, suite, -1, 3600) for suite in given.modules}
    if failed := [suite for suite, took in usual_s.items() if took is None]:
        sys.exit(f"without a fault the tests do not pass of {', '.join(failed)}")

    def outcome(number):
        module, (path, _, _, _, old, line) = faults[number]
        found = seconds_to_pass(build, module, number, 60 + 4 * usual_s[module]) is None
        source = path.read_text(encoding="utf-8").splitlines()[line - 1].strip()
        print(f"{'found' if found else 'lived'} {number:>3} {path.relative_to(ROOT)}:{line}: {old}: {source}", flush=True)
        return found

    with ThreadPoolExecutor(given.jobs) as pool:
        found = sum(pool.map(outcome, faults))
    print(f"{found} of {len(faults)} faults found ({100 * found / len(faults):.0f} %), seed {given.seed}")
    return found < len(faults)


if __name__ == "__main__":
    sys.exit(main())
