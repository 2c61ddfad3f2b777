#!/usr/bin/env bash
# Builds and runs the tests of the modules without libtorch, and the program that they start, under the address and
# undefined-behaviour sanitizers.
set -euo pipefail
cd "$(dirname "$0")/.."

targets=(sftbench)
for module in base catalog space hub plan data checkpoint measure results launch simulate sweep; do targets+=("${module}_test"); done
cmake --preset asan >build/asan-configure.log 2>&1 || { cat build/asan-configure.log >&2; exit 1; }
cmake --build --preset asan --target "${targets[@]}"
# Targets that are not built have a placeholder test "<target>_NOT_BUILT": they are not asked for.
ctest --test-dir build/asan --output-on-failure --timeout 1800 -j "$(nproc)" -E '_NOT_BUILT$'
