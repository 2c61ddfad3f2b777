#!/usr/bin/env bash
# clang-tidy (.clang-tidy) on the lines of src and include that changed since BASE (default: the commit before).
# usage: tidy.sh [BASE]
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-tidy >/dev/null ||
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends clang-tidy >/dev/null; }
# Unity builds have no command for a file by itself. Two headers are made by the build.
cmake --preset dev >/dev/null
cmake --build build/dev --target sftbench_interfaces sftbench_commit >/dev/null
git diff -U0 "${1:-HEAD~1}" -- src include ':!src/results/html' |
  clang-tidy-diff-14.py -p1 -path build/dev -j "$(nproc)" -quiet -iregex '.*\.(cpp|h)' \
    -extra-arg=-Wno-unknown-warning-option -extra-arg=-Wno-ignored-optimization-argument
