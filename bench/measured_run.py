"""One measurement through `sftbench run`, for the comparisons of this folder: its result as it is printed."""
import json
import subprocess
import sys
import tempfile


def measured_run(program, experiment, properties, padding):
    """`properties`: what --set takes, by name. Ends the process, with the command and its messages, if it fails."""
    command = [program, "run", "--experiment", experiment, "--weights", "random", "--padding", padding,
               "--format", "json", "--no-progress"]
    for name, value in properties.items():
        command += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
    with tempfile.TemporaryDirectory() as results:
        run = subprocess.run([*command, "-o", results], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}\n{run.stderr}")
    return json.loads(run.stdout)


def in_turns(kinds, turns, measure):
    """{kind: [measure(kind), ...]}: one of each in turn, so that what changes on the machine meets all of them."""
    runs = {kind: [] for kind in kinds}
    for _ in range(turns):
        for kind in kinds:
            runs[kind].append(measure(kind))
    return runs
