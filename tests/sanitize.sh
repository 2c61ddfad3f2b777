#!/usr/bin/env bash
# Builds and runs tests of modules without libtorch under the address and undefined-behaviour sanitizers: those that read
# what comes from outside.
set -euo pipefail
cd "$(dirname "$0")/.."

targets=()
for module in base ranks catalog space plan data checkpoint measure results; do targets+=("${module}_test"); done
cmake --preset asan >build/asan-configure.log 2>&1 || { cat build/asan-configure.log >&2; exit 1; }
cmake --build --preset asan --target "${targets[@]}"
# Targets that are not built have a placeholder test "<target>_NOT_BUILT", and the program itself is one of them.
ctest --test-dir build/asan --output-on-failure --timeout 1800 -j "$(nproc)" -E '_NOT_BUILT$|^sweep_'
