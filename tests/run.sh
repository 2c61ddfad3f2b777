#!/usr/bin/env bash
# Installs, builds and runs every test. usage: tests/run.sh [ctest options...]
set -euo pipefail
cd "$(dirname "$0")/.."

bash experiments/setup.sh all
exec ctest --test-dir build/release --output-on-failure --timeout 900 -j "$(nproc)" "$@"
