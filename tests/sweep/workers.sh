#!/usr/bin/env bash
# Workers on one folder that are killed, stopped for longer than their lease (alone, or with the cell that they
# measure), and whose folder vanishes for a while: in the end one settled result per cell, none torn, doubled, changed
# or lost, and nothing measured again without one of these causes (tests/sweep/workers.py).
# usage: tests/sweep/workers.sh SFTBENCH [CELLS=200] [WORKERS=4] [FAULTS=16] [CLAIMS=leases]
# SEED: repeats the same choices, if not the same instants.
set -euo pipefail
program=${1:?usage: workers.sh SFTBENCH [CELLS] [WORKERS] [FAULTS] [CLAIMS]}
here=$(cd "$(dirname "$0")" && pwd)
exec "${PYTHON:-/usr/bin/python3}" "$here/workers.py" "$program" "${2:-200}" "${3:-4}" "${4:-16}" "${5:-leases}"
