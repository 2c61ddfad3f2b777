#!/usr/bin/env bash
# Runs the suites of everything that computes once per instruction set below the processor's own: what is right and fast
# on the machine at hand need not be so on another. usage: tests/instructions.sh [baseline|avx2|avx512 ...]
set -euo pipefail
cd "$(dirname "$0")/.."
bin=build/release/bin
suites=(ops optim tuning model engine)

[ $# -gt 0 ] || set -- baseline avx2 avx512
for isa; do
  if ! SFTBENCH_ISA=$isa "$bin/sftbench" gpus >/dev/null 2>&1; then
    echo "skipped: this processor lacks $isa"
    continue
  fi
  for suite in "${suites[@]}"; do
    echo "--- $isa: $suite"
    (
      SFTBENCH_ISA=$isa
      . tests/limit_libraries.sh
      "$bin/${suite}_test" --gtest_brief=1
    )
  done
done
