#!/usr/bin/env python3
"""What becomes of a job when one of its ranks fails: every fault done to four real ranks on this machine, over Gloo.

    python3 faults.py SFTBENCH [FAULT]...      all of them, or those whose name contains one of the words

After each fault every process has to be gone within the deadline + 10 s, with the exit status, the code and the rank of the
fault in the outcome; nothing half-written may stand where something whole is looked for, and the next run has to work.
Prints one row of a table for each fault, and exits with 1 when one went another way. The cut link is in two_hosts.sh.
"""
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from jobs import RANKS, make, result_of

DEADLINE_S = 5
STOPPED_DEADLINE_S = 20
MARGIN_S = 10  # in which all have to be gone after the deadline
PATIENCE_S = 60  # of this script, for a job to come to where the fault is done
MARK = "SFTBENCH_PROCESSES_OF_TEST"


def wait_until(true, what):
    until_s = time.monotonic() + PATIENCE_S
    while not (found := true()):
        assert time.monotonic() < until_s, f"waited in vain for {what}"
        time.sleep(0.002)
    return found


class Job:
    """Four ranks that `sftbench run` starts (`start`), or that are started by hand as a cluster would (`start_ranks`)."""

    def __init__(self, program, folder, port):
        self.program, self.folder, self.port = program, folder, port
        self.results = folder / "results"
        self.mark = f"{os.getpid()}.{folder.name}"
        self.started = []  # by this script: (process, file of what it says)
        self.fault_s = None

    def environment(self, **variables):
        # Ranks that share few cores must not spin while they wait.
        return os.environ | {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive", MARK: self.mark} | variables

    def start(self, job, *options, program=None, environment=None):
        said = self.folder / f"said{len(self.started)}"
        command = [program or self.program, "run", "--job", str(job), "-o", str(self.results), "--no-progress", *options]
        with said.open("w") as file:
            process = subprocess.Popen(command, env=environment or self.environment(), stdout=file, stderr=file)
        self.started.append((process, said))

    def start_ranks(self, job, ranks=range(RANKS), **changed):
        """`changed`: rank3={"job": ..., "program": ...}, what this rank is started with instead."""
        for rank in ranks:
            own = {"job": job} | changed.get(f"rank{rank}", {})
            self.start(own["job"], program=own.get("program"), environment=self.environment(
                RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS),
                MASTER_ADDR="127.0.0.1", MASTER_PORT=str(self.port)))

    def alive(self):
        """Whoever has the mark in its environment: also those whose parent is gone."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if f"{MARK}={self.mark}".encode() in (path / "environ").read_bytes().split(b"\0"):
                    if (path / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
                        found.append(int(path.name))
            except OSError:  # it has ended, or is of another user
                pass
        return found

    def process_of(self, rank):
        """Of a job that `start` started: a rank writes to a log of its own."""
        def find():
            for pid in self.alive():
                try:
                    if f".rank{rank}." in os.readlink(f"/proc/{pid}/fd/1"):
                        return pid
                except OSError:
                    pass
            return None
        return wait_until(find, f"rank {rank}")

    def wait_for_step(self, step):
        wait_until(lambda: any(f" step: {step} " in log.read_text() for log in self.results.rglob("*.log")),
                   f"step {step}")

    def fail(self, action, *arguments):
        self.fault_s = time.monotonic()
        action(*arguments)

    def end(self):
        """Waits for all of it; seconds since the fault, exit statuses."""
        statuses = [process.wait(PATIENCE_S) for process, _ in self.started]
        seconds = time.monotonic() - self.fault_s
        orphans = self.alive()
        assert not orphans, f"still there: {orphans}"
        return seconds, statuses

    def clean_up(self):
        for pid in self.alive():
            os.kill(pid, signal.SIGKILL)
        for process, _ in self.started:
            process.wait()


# --- the faults: each does it to a new job, and returns what has to come of it ------------------------------------------


def signal_in_a_step(job, jobs, rank, number):
    job.evidence = r"last seen: .*ranks? \d.* in the (forward pass|backward pass|update) of step \d+"
    job.start(jobs["endless"])
    job.wait_for_step(3)
    job.fail(os.kill, job.process_of(rank), number)


def killed(job, jobs):
    signal_in_a_step(job, jobs, 2, signal.SIGKILL)
    return 4, "KILLED", "rank 2: the process was ended from outside by SIGKILL"


def in_a_ring(job, jobs, **changes):
    """A job whose rows all four ranks divide."""
    endless = json.loads(jobs["endless"].read_text())
    endless["parallel"] |= {"context_ranks": RANKS} | changes
    path = job.folder / "ring.json"
    path.write_text(json.dumps(endless))
    return {"endless": path}


def killed_in_a_ring(job, jobs):
    signal_in_a_step(job, in_a_ring(job, jobs), 2, signal.SIGKILL)
    return 4, "KILLED", "rank 2: the process was ended from outside by SIGKILL"


def stopped_in_a_ring(job, jobs):
    job.deadline_s = STOPPED_DEADLINE_S
    signal_in_a_step(job, in_a_ring(job, jobs, timeout_s=STOPPED_DEADLINE_S), 1, signal.SIGSTOP)
    return 4, "NCCL", "rank 1: no sign of life for "


def rank0_killed(job, jobs):
    signal_in_a_step(job, jobs, 0, signal.SIGKILL)
    return 4, "KILLED", "rank 0: the process was ended from outside by SIGKILL"


def crash(job, jobs):
    signal_in_a_step(job, jobs, 3, signal.SIGSEGV)
    return 4, "INTERNAL", "rank 3: the process crashed with SIGSEGV"


def stopped(job, jobs):
    job.deadline_s = STOPPED_DEADLINE_S
    endless = json.loads(jobs["endless"].read_text())
    endless["parallel"]["timeout_s"] = STOPPED_DEADLINE_S
    jobs = {"endless": job.folder / "job.json"}
    jobs["endless"].write_text(json.dumps(endless))
    signal_in_a_step(job, jobs, 1, signal.SIGSTOP)
    return 4, "NCCL", "rank 1: no sign of life for "


def connections_to(port):
    """Established ones, seen from the side that listens."""
    rows = [row.split() for table in ("tcp", "tcp6") for row in Path("/proc/net", table).read_text().splitlines()[1:]]
    return sum(row[1].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def rendezvous(job, jobs):
    job.start_ranks(jobs["endless"], ranks=range(RANKS - 1))
    wait_until(lambda: connections_to(job.port) == RANKS - 2, "ranks to come")
    time.sleep(0.2)
    job.fail(job.started[1][0].kill)
    return [4, -signal.SIGKILL, 4], "KILLED", "rank 1: the process ended before all ranks had come"


def saving(job, jobs):
    checkpoints = job.folder / "checkpoints"
    saves = ["--checkpoint-dir", str(checkpoints), "--save-strategy", "steps"]
    job.start(jobs["endless"], *saves, "--save-steps", "1")
    job.wait_for_step(3)
    rank = job.process_of(2)

    def within():
        """Stopped while the folder is being filled, which the others cannot finish without this rank."""
        if list(checkpoints.glob(".checkpoint-*.saving")):
            os.kill(rank, signal.SIGSTOP)
            time.sleep(0.1)
            if list(checkpoints.glob(".checkpoint-*.saving")):
                return True
            os.kill(rank, signal.SIGCONT)
        return False
    wait_until(within, "a checkpoint that is being written")
    job.fail(os.kill, rank, signal.SIGKILL)

    def after():
        whole = sorted(checkpoints.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
        assert whole and all((path / "trainer_state.json").is_file() for path in whole), whole
        endless = json.loads(jobs["endless"].read_text())
        steps = int(whole[-1].name.split("-")[1])
        endless["batches"]["max_steps"] = steps + 2
        resumed = job.folder / "resumed.json"
        resumed.write_text(json.dumps(endless))
        job.start(resumed, *saves, "--save-total-limit", "1", "--resume-from-checkpoint", str(checkpoints))
        assert job.started[-1][0].wait(PATIENCE_S) == 0, job.started[-1][1].read_text()
        assert [path.name for path in checkpoints.glob("*checkpoint*")] == [f"checkpoint-{steps + 2}"]
    job.after = after
    return 4, "KILLED", "rank 2: the process was ended from outside by SIGKILL"


def throws(job, jobs):
    broken = json.loads(jobs["endless"].read_text())
    broken["data"]["path"] = str(job.folder / "broken.jsonl")
    Path(broken["data"]["path"]).write_text('{"output": 7}\n' * 64)
    (job.folder / "broken.json").write_text(json.dumps(broken))
    job.fail(lambda: job.start_ranks(jobs["endless"], rank3={"job": job.folder / "broken.json"}))
    return [4] * RANKS, "DATA", "rank 3: "


def port_taken(job, jobs):
    job.taken = socket.create_server(("", job.port))
    job.fail(lambda: job.start_ranks(jobs["endless"]))
    job.started[0][0].wait(PATIENCE_S)
    job.notes = [f"rank 0 after {time.monotonic() - job.fault_s:.1f} s"]
    job.at_least_s = DEADLINE_S  # the others look for rank 0 until then

    def after():
        job.taken.close()
        for _, said in job.started[1:]:
            assert "did not find rank 0" in said.read_text() or not said.read_text(), said.read_text()
    job.after = after
    return [4] * RANKS, "NCCL", f"port {job.port}, where ranks are to meet, is taken by another process"


def other_version(job, jobs):
    """This program with another commit in it. A compiler may have it in code, eight letters at a time."""
    def commit_of(program):
        return re.search(r"commit (\w+)", subprocess.check_output([program, "--version"], text=True)).group(1)
    letters = commit_of(job.program)[:8].encode()
    other = job.folder / "sftbench"
    other.write_bytes(Path(job.program).read_bytes().replace(letters, letters[::-1]))
    other.chmod(0o755)
    assert commit_of(other) != commit_of(job.program)
    for library in Path(job.program).parent.glob("*.so"):
        (job.folder / library.name).symlink_to(library)
    job.fail(lambda: job.start_ranks(jobs["endless"], rank3={"program": str(other)}))
    return [4] * RANKS, "NCCL", "rank 3 on host "


def other_job(job, jobs):
    other = json.loads(jobs["endless"].read_text())
    other["optimizer"]["learning_rate"] *= 2
    (job.folder / "other.json").write_text(json.dumps(other))
    job.fail(lambda: job.start_ranks(jobs["endless"], rank3={"job": job.folder / "other.json"}))
    return [2] * RANKS, None, "rank 3 on "


FAULTS = {
    "rank 2 is killed in a step": killed,
    "rank 2 is killed where all divide rows": killed_in_a_ring,
    f"rank 1 is stopped where all divide rows, deadline {STOPPED_DEADLINE_S} s": stopped_in_a_ring,
    "rank 0 is killed in a step": rank0_killed,
    "rank 3 crashes": crash,
    f"rank 1 is stopped, deadline {STOPPED_DEADLINE_S} s": stopped,
    "rank 1 is killed in the rendezvous": rendezvous,
    "rank 2 is killed while a checkpoint is written": saving,
    "rank 3 throws": throws,
    f"the port of the rendezvous is taken, deadline {DEADLINE_S} s": port_taken,
    "rank 3 is another version of the program": other_version,
    "rank 3 has another job": other_job,
}


def outcome(job, code):
    """(code, message, evidence) of the result that was written or, for a usage error, what rank 0 said."""
    if code is None:
        assert not list(job.results.rglob("*.json")), "a job that never began has a result"
        return "-", job.started[0][1].read_text().strip(), ""
    result = result_of(str(job.results))
    assert result["status"] == "failed" and not result["measured"], result["status"]
    return result["reason"]["code"], result["reason"]["message"], result["reason"]["evidence"] or ""


def free_port():
    with socket.create_server(("", 0)) as server:
        return server.getsockname()[1]


def check(program, jobs, folder, name):
    folder.mkdir()
    job = Job(program, folder, free_port())
    job.deadline_s, job.at_least_s, job.notes, job.evidence, job.after = DEADLINE_S, 0, [], "", lambda: None
    try:
        statuses, code, beginning = FAULTS[name](job, jobs)
        seconds, ended = job.end()
        assert ended == (statuses if isinstance(statuses, list) else [statuses]), f"exit statuses {ended}"
        assert job.at_least_s <= seconds <= job.deadline_s + MARGIN_S, f"took {seconds:.1f} s"
        found_code, message, evidence = outcome(job, code)
        assert found_code == (code or "-") and beginning in message, f"{found_code}: {message}"
        assert re.search(job.evidence, evidence), f"evidence: {evidence}"
        job.after()
        again = Job(program, folder / "again", job.port)
        again.folder.mkdir()
        (again.start_ranks if len(ended) > 1 else again.start)(jobs["FULL_SHARD"])
        again.fail(lambda: None)
        assert not any(again.end()[1]), again.started[0][1].read_text()
        assert result_of(str(again.results))["status"] == "valid"
    finally:
        job.clean_up()
    notes = f" ({', '.join(job.notes)})" if job.notes else ""
    print(f"| {name} | {seconds:.1f}{notes} | {sorted(set(ended))} | `{found_code}` | {message.splitlines()[0]} | "
          f"{evidence} |", flush=True)


def main(program, *words):
    program = os.path.realpath(program)
    failed = False
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(program, folder)
        jobs = {path.stem: path for path in folder.glob("*.json")}
        for number, fault in enumerate(FAULTS):
            if words and not any(word in fault for word in words):
                continue
            try:
                check(program, jobs, folder / str(number), fault)
            except (AssertionError, subprocess.TimeoutExpired) as error:
                failed = True
                print(f"| {fault} | went another way: {error}", flush=True)
    return failed


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
