#!/usr/bin/env bash
# Installs, builds and runs every test. usage: tests/run.sh [--quick] [ctest options...]
#   --quick   the tests of the modules without libtorch, which need neither the program nor its engine
set -euo pipefail
cd "$(dirname "$0")/.."
quick=no
[ "${1:-}" != --quick ] || { quick=yes; shift; }

. tests/limit_libraries.sh  # SFTBENCH_ISA=avx2 bash tests/run.sh: as on a lesser processor
if [ $quick = yes ]; then
  echo "tests/run.sh: builds and runs the tests of the modules without libtorch"
  bash experiments/setup.sh --cpu quick_tests
  exec ctest --test-dir build/release --output-on-failure --timeout 900 -j "$(nproc)" -L "$(<build/release/quick_labels)" "$@"
fi
echo "tests/run.sh: installs packages, builds the program and every test, runs them: 31 to 51 minutes on 2 cores from nothing"
bash experiments/setup.sh all
exec ctest --test-dir build/release --output-on-failure --timeout 900 -j "$(nproc)" "$@"
