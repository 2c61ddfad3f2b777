#!/usr/bin/env bash
# Runs the suites of everything that computes once per instruction set below the processor's own: what is right and fast
# on the machine at hand need not be so on another. usage: tests/instructions.sh [baseline|avx2|avx512|avx512_bf16 ...]
set -euo pipefail
cd "$(dirname "$0")/.."
bin=build/release/bin
suites=(ops optim tuning model engine)
# Of the engine, what is held against Hugging Face in one process: a process that was forked from one with a team of
# threads cannot have a team of its own, so tests that fork ranks run one by one, by ctest.
engine_tests='Families/GoldenTraining*:Cases/GoldenAdapterTraining*:LossScaling*:PureFloat16*'

[ $# -gt 0 ] || set -- baseline avx2 avx512 avx512_bf16
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
      filter=$([ "$suite" = engine ] && echo "$engine_tests" || echo '*')
      "$bin/${suite}_test" --gtest_brief=1 --gtest_filter="$filter"
    )
  done
done
