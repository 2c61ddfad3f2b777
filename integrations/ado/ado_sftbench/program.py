"""Asks the program sftbench what it can measure, and lets it measure. Nothing here needs ado."""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SETTLED = ("valid", "invalid")


class ProgramError(Exception):
    """There is no measurement. The text says why and what to do."""


def _end_with_parent():
    """Nobody would wait for a measurement whose worker was killed, and it would hold its devices."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def ask(*arguments):
    """The rows that the program prints, or none where it refused, and what it said beside them."""
    program = os.environ.get("SFTBENCH_PROGRAM", "sftbench")
    # Ray sets one thread for each worker. A measurement has all cores, or --threads among its options.
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    try:
        ended = subprocess.run([program, *arguments, "--format", "json"], stdin=subprocess.DEVNULL, capture_output=True,
                               text=True, errors="replace", env=environment, preexec_fn=_end_with_parent)
    except OSError as error:
        raise ProgramError(f"cannot start {program}: {error.strerror}; install sftbench, or name the program in the"
                           " environment variable SFTBENCH_PROGRAM") from error
    said = " ".join(ended.stderr.split())
    if ended.returncode < 0:
        said = f"{program} was ended by {signal.Signals(-ended.returncode).name}; measure again. {said}".strip()
    try:
        return json.loads(ended.stdout), said
    except ValueError:
        return [], said or f"{program} ended with status {ended.returncode} and without a word"


def experiments():
    """All that the program knows of each of its experiments."""
    listed, said = ask("experiments")
    if not listed:
        raise ProgramError(said)
    with ThreadPoolExecutor(len(listed)) as several:
        found = list(several.map(lambda row: ask("experiments", row["experiment"]), listed))
    for full, said in found:
        if not full:
            raise ProgramError(said)
    return [full for full, _ in found]


def _results(folder, key):
    """The measurements of a key in the order in which they ended, without damaged files, which the program sets aside."""
    found = []
    for path in folder.glob(f"{key}*.json"):
        with contextlib.suppress(OSError, ValueError):
            found.append(json.loads(path.read_text(encoding="utf-8")) | {"file": str(path)})
    return sorted(found, key=lambda result: result["finished_at"])


def measure(space, folder, options=(), known=()):
    """A result of the space's one entity that `known` does not have the checksum of: one that is in the folder, since
    somebody was killed before he stored it, or else a new one. An invalid entity is never measured again."""
    folder = Path(folder).expanduser().absolute()
    quiet = ("--no-progress", "--log-level", "error")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        json.dump(space, file)
        file.flush()
        planned, said = ask("sweep", file.name, "-o", str(folder), *options, "--dry-run", *quiet)
    if not planned:
        raise ProgramError(said)
    key, action = planned[0]["key"], planned[0]["action"]
    place = folder / space["experiments"][0]["experimentIdentifier"]

    there = [result for result in _results(place, key) if result["status"] in SETTLED] if action in SETTLED else []
    for result in there:
        if result["checksum"] not in known or result["status"] == "invalid":
            return result

    # The space stays beside its result, whose field `command` names it.
    kept = place / f"{key}.space.yaml"
    place.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(space, indent=1) + "\n", encoding="utf-8")
    ended, said = ask("sweep", str(kept), "-o", str(folder), *options, "--repeats", str(len(there) + 1), *quiet)
    fresh = [result for result in _results(place, key) if result["checksum"] not in known] if ended else []
    for result in fresh:
        if result["status"] in SETTLED:
            return result
    if fresh:
        reason = fresh[-1]["reason"]
        said = f"{reason['code']}: {reason['message']}; {fresh[-1]['file']}"
    raise ProgramError(said or f"there is no result in {place}")
