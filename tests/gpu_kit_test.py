#!/usr/bin/env python3
"""bench/gpu/run.py leaves its table whatever ends a process or the call, and goes on where it stopped. Programs are stand-ins."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

KIT = Path(__file__).resolve().parents[1] / "bench/gpu"
sys.path.insert(0, str(KIT))
import table  # noqa: E402

RESULT = {"status": "valid", "environment": {"attention": ["flash"]},
          "extra": {"step_seconds": [2, 1, 0.5, 0.5], "warmup_steps": 2, "tokens": {"padded": 200}, "mfu": {"value": None},
                    "loss": [2.5, 2.25], "startup_seconds": {"first_step": 3},
                    "memory_bytes": {"device_peak_allocated": [1 << 30], "host_peak_rss": [1]}}}
DOCTOR = [{"subject": "gpu 0", "found": "NVIDIA H100 80GB HBM3, 79.6 GiB"}, {"subject": "gpu 0 links", "found": "PCIe"}]


class KitTest(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.out = self.folder / "out"
        self.program("python", "echo /nowhere/torch")
        self.program("bin/sftbench", f"""case "$*" in
doctor*) echo '{json.dumps(DOCTOR)}' ;;
*--dry-run*) echo '{{}}' ;;
*) sleep "${{STEP_S:-0}}"; echo '{json.dumps(RESULT)}' ;;
esac""")

    def program(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def start(self, *arguments, **environment):
        command = [sys.executable, KIT / "run.py", self.out, "--work", self.folder / "work", "--bin", self.folder / "bin",
                   "--python", self.folder / "python", *arguments]
        return subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True)

    def call(self, *arguments, **environment):
        process = self.start(*arguments, **environment)
        said, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, said)
        return said

    def wait_for(self, what):
        end = time.monotonic() + 30
        while not what():
            self.assertLess(time.monotonic(), end, "waited in vain")
            time.sleep(0.02)

    def processes(self):
        return {(row["step"], row["ending"]): row["outcome"] for row in table.rows_of(self.folder / "work/steps.jsonl")}

    def test_a_run_is_a_row_of_the_table(self):
        said = self.call("losses")
        self.assertIn("1 of NVIDIA H100 80GB HBM3", said)
        self.assertRegex(said, r"losses-float32 +sftbench +200\.0 .* 2\.5000 2\.2500 flash")
        self.assertEqual(said[-len((self.out / "table.txt").read_text()):], (self.out / "table.txt").read_text())
        self.assertEqual(json.loads((self.out / "summary.json").read_text())["runs"]["losses-float32"]["peak_bytes"], 1 << 30)

    def test_a_process_that_hangs_is_ended_and_the_rest_runs(self):
        said = self.call("losses", "--limit", "1", "--fault", "losses-bfloat16:hang")
        self.assertEqual(self.processes()["losses-bfloat16", "result.json"], "ended after 1 s")
        self.assertEqual(self.processes()["losses-float32-cpu", "result.json"], "ok")
        self.assertRegex(said, r"losses-bfloat16 +sftbench +ended after 1 s")

    def test_a_process_that_crashes_is_a_line(self):
        said = self.call("losses", "--fault", "losses-bfloat16:crash")
        self.assertRegex(said, r"losses-bfloat16 +sftbench +signal SIGSEGV")
        self.assertEqual(self.processes()["losses-float32-cpu", "result.json"], "ok")

    def test_a_call_that_is_cut_prints_its_table_and_the_next_goes_on(self):
        first = self.start(STEP_S="20")
        self.wait_for(lambda: list((self.folder / "work").glob("losses-bfloat16.1.result.json")))
        first.send_signal(signal.SIGTERM)
        said, _ = first.communicate(timeout=30)
        self.assertRegex(said, r"losses-bfloat16 +sftbench +cut by SIGTERM")
        ended = self.processes()
        self.assertEqual(ended["doctor", "json"], "ok")
        self.call("--seconds", "30")
        self.assertEqual(self.processes()["losses-bfloat16", "result.json"], "ok")
        doctors = [row for row in table.rows_of(self.folder / "work/steps.jsonl") if row["step"] == "doctor"]
        self.assertEqual(len(doctors), 1)

    def test_a_call_that_is_killed_leaves_what_had_ended_and_no_process(self):
        process = self.start(STEP_S="1234.5")
        self.wait_for(lambda: list((self.folder / "work").glob("losses-bfloat16.1.result.json")))
        process.kill()
        process.wait()
        process.stdout.close()
        self.assertIn(" processes, ", (self.out / "table.txt").read_text())
        self.assertTrue((self.out / "results.tar.gz").stat().st_size > 0)
        listed = lambda: subprocess.run(["pgrep", "-f", f"{self.folder}/bin/sftbench run"], capture_output=True).stdout
        self.wait_for(lambda: not listed())

    def test_what_would_not_end_in_time_is_left_to_the_next_call(self):
        said = self.call("--seconds", "3")
        self.assertRegex(said, r"is left to the next call|are left to the next call")

    def test_archives_come_together(self):
        self.call("losses")
        first = self.folder / "first.tar.gz"
        first.write_bytes((self.out / "results.tar.gz").read_bytes())
        self.call("losses")
        together = self.folder / "together"
        together.mkdir()
        table.put_together([first, self.out / "results.tar.gz"], together)
        self.assertEqual(len(table.Results(together).rows), 12)
        self.assertEqual(table.summary_of(together)["runs"]["losses-float32"]["tokens_per_s"], 200)

    def test_there_is_no_such_part(self):
        process = subprocess.run([sys.executable, KIT / "run.py", self.out, "loses"], capture_output=True, text=True)
        self.assertEqual(process.returncode, 2)
        self.assertIn("there is no part 'loses'; parts are machine kernels losses", process.stderr)


if __name__ == "__main__":
    unittest.main()
