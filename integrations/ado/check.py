#!/usr/bin/env python3
"""Whether what starts the program loses nothing and measures nothing twice, with simulated measurements and without ado:
results that are there, repeats, crashes, kills of the program and of who started it, invalid entities, damage.
usage: check.py PROGRAM"""
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ado_sftbench import program

SIMULATED = ["--weights", "random", "--backend", "simulate"]
SLOW = [*SIMULATED, "--simulate", "startup_s=600"]
SECONDS = 60  # for what takes a moment


def space(number_gpus=0, **parameterization):
    entity = {"model_name": "smollm2-135m", "number_gpus": number_gpus, "model_max_length": 64, "batch_size": 1}
    return {"experiments": [{"experimentIdentifier": "finetune_full_benchmark-v1.0.0", "actuatorIdentifier": "SFTTrainer",
                             "parameterization": [{"property": {"identifier": name}, "value": value}
                                                  for name, value in {"max_steps": 2, **parameterization}.items()]}],
            "entitySpace": [{"identifier": name, "propertyDomain": {"values": [value]}}
                            for name, value in entity.items()]}


def expect(holds, what):
    if not holds:
        sys.exit(f"check.py: {what}")


def refusal(*arguments):
    try:
        program.measure(*arguments)
    except program.ProgramError as error:
        return str(error)
    sys.exit(f"check.py: {arguments} gave a measurement")


def files(folder):
    return sorted(path.name.split(".", 1)[1] for path in Path(folder).glob("*/*.json*"))


def alive(process):
    """Whom nobody waits for stays as a zombie."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def soon(answer, what):
    """The first answer that is something."""
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        if found := answer():
            return found
        time.sleep(0.02)
    sys.exit(f"check.py: {what}")


def measuring(folder):
    """The process that measures in the folder, as soon as it does."""
    def answer():
        for lock in Path(folder).glob("*/*.lock"):
            number = None
            with contextlib.suppress(FileNotFoundError):  # that of a process that was killed may go at this moment
                number = re.search(r"process (\d+)", lock.read_text())
            if number and list(lock.parent.glob("*.growing.log")) and alive(number[1]):
                return int(number[1])
    return soon(answer, "nothing is measured")


def check(folder):
    names = [each["identifier"] for each in program.experiments()]
    expect("finetune_full_benchmark-v1.0.0" in names and "finetune_qlora_benchmark-v1.0.0" in names, f"the experiments are {names}")

    first = program.measure(space(), folder, SIMULATED)
    expect(first["status"] == "valid" and first["measured"]["is_valid"] == 1, "the first measurement is not valid")
    again = program.measure(space(), folder, SIMULATED)
    expect(again["checksum"] == first["checksum"] and files(folder) == ["json"], "a measurement was repeated")
    second = program.measure(space(), folder, SIMULATED, [first["checksum"]])
    expect(second["checksum"] != first["checksum"] and files(folder) == ["2.json", "json"], "there is no second one")

    both = [first["checksum"], second["checksum"]]
    crash = [*SIMULATED, "--simulate", "crash_at_step=1"]
    said = refusal(space(), folder, crash, both)
    expect(said.startswith("INTERNAL: ") and "SIGSEGV" in said, f"of a crash it says: {said}")
    third = program.measure(space(), folder, SIMULATED, both)
    expect(third["checksum"] not in both and files(folder) == ["2.json", "3.json", "json"], "a crash leaves no way on")

    other = space(flash_attn=False)
    killer = threading.Thread(target=lambda: os.kill(measuring(folder), signal.SIGKILL))
    killer.start()
    said = refusal(other, folder, SLOW)
    killer.join()
    expect("SIGKILL" in said, f"of a kill it says: {said}")
    child = subprocess.Popen([sys.executable, __file__, os.environ["SFTBENCH_PROGRAM"], folder])
    process = measuring(folder)
    child.kill()
    child.wait()
    soon(lambda: not alive(process), "the program goes on, and nobody waits for it")
    expect(program.measure(other, folder, SIMULATED)["status"] == "valid", "kills leave no way on")

    third_space = space(flash_attn=False, gradient_checkpointing=False)
    slowish = [*SIMULATED, "--simulate", "startup_s=1"]
    with ThreadPoolExecutor(2) as two:
        found = list(two.map(lambda _: program.measure(third_space, folder, slowish)["checksum"], range(2)))
    expect(found[0] == found[1], "two that ask at the same moment measure twice")

    invalid = program.measure(space(2), folder, SIMULATED)
    expect(invalid["status"] == "invalid" and invalid["measured"] == {"is_valid": 0}, "the entity is not invalid")
    expect(invalid["reason"]["code"] == "RULE_1", f"the entity is invalid because of {invalid['reason']}")
    expect(program.measure(space(2), folder, SIMULATED, [invalid["checksum"]]) == invalid, "it is invalid twice")

    Path(first["file"]).write_text(Path(first["file"]).read_text()[:-20])
    anew = program.measure(space(), folder, SIMULATED, both)
    expect(anew["checksum"] not in both, "a damaged file counts as a measurement")
    kept = [path.name for path in Path(folder).glob("*/*.aside")]
    expect(len(kept) == 1, f"the damaged file is not kept: {kept}")

    said = refusal(space(no_such=1), folder, SIMULATED)
    expect("no_such" in said, f"of an unknown property it says: {said}")
    said = refusal(space(), folder, ["--no-such"])
    expect("--no-such" in said, f"of an unknown option it says: {said}")
    os.environ["SFTBENCH_PROGRAM"] = "/no/such/sftbench"
    said = refusal(space(), folder)
    expect("/no/such/sftbench: No such file" in said and "install sftbench" in said, f"without a program it says: {said}")


if __name__ == "__main__":
    os.environ["SFTBENCH_PROGRAM"] = str(Path(sys.argv[1]).resolve())
    if len(sys.argv) > 2:  # the one that is killed while it waits for a measurement
        with contextlib.suppress(program.ProgramError):
            program.measure(space(flash_attn=False), sys.argv[2], SLOW)
        sys.exit(0)
    with tempfile.TemporaryDirectory() as scratch:
        check(scratch)
    print("check.py: fine")
