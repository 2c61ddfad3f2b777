#!/usr/bin/env bash
# Installs, builds and runs every test. usage: tests/run.sh [--quick] [ctest options...]
#   --quick   the tests of the modules without libtorch, which need neither the program nor its engine
set -euo pipefail
cd "$(dirname "$0")/.."
. tests/limit_libraries.sh  # SFTBENCH_ISA=avx2 bash tests/run.sh: as on a lesser processor
chosen=()
if [ "${1:-}" = --quick ]; then
  shift
  echo "tests/run.sh: builds and runs the tests of the modules without libtorch"
  bash experiments/setup.sh --cpu quick_tests
  chosen=(-L "$(<build/release/quick_labels)")
else
  echo "tests/run.sh: installs packages, builds the program and every test, runs them: 15 to 30 minutes on 2 cores from nothing"
  bash experiments/setup.sh all
fi

status=0
ctest --test-dir build/release --output-on-failure --timeout 900 -j "$(nproc)" "${chosen[@]}" "$@" | tee build/ctest.log || status=$?
# Why tests were skipped, and then ctest's verdict once more.
sed -n '/: Skipped$/ { n; s/^/skipped: /p }' build/release/Testing/Temporary/LastTest.log | sort | uniq -c
grep ' tests passed, ' build/ctest.log | tail -1 || true
exit $status
