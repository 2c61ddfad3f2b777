#!/usr/bin/env bash
# Installs, builds and runs every test. usage: tests/run.sh [ctest options...]
set -euo pipefail
cd "$(dirname "$0")/.."

. tests/limit_libraries.sh  # SFTBENCH_ISA=avx2 bash tests/run.sh: as on a lesser processor
bash experiments/setup.sh all
exec ctest --test-dir build/release --output-on-failure --timeout 900 -j "$(nproc)" "$@"
