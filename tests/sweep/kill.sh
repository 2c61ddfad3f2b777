#!/usr/bin/env bash
# Kills sweeps, their children and runs with SIGKILL at random instants, all on one folder, starting each again, and
# holds the store to its promise (tests/sweep/kill.py says how): in the end one settled result per cell, none torn or
# changed once it was settled, nothing lost to a failure, nothing left lying about.
# usage: tests/sweep/kill.sh SFTBENCH [CELLS=200] [KILLS=50] [SWEEPS=1] [RUNS=1]
#   KILLS  of sweeps and runs, and as many of children; SWEEPS and RUNS at the same time
# STEP_S (0.06): seconds of each of a cell's three steps. SEED: repeats the same choices, if not the same instants.
set -euo pipefail
program=${1:?usage: kill.sh SFTBENCH [CELLS] [KILLS] [SWEEPS] [RUNS]}
here=$(cd "$(dirname "$0")" && pwd)
exec "${PYTHON:-/usr/bin/python3}" "$here/kill.py" "$program" "${2:-200}" "${3:-50}" "${4:-1}" "${5:-1}" "${STEP_S:-0.06}"
