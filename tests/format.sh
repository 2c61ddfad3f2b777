#!/usr/bin/env bash
# Whether every source is as clang-format writes it (.clang-format, version 14). usage: format.sh [--write]
set -euo pipefail
cd "$(dirname "$0")/.."
command -v clang-format >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends clang-format >/dev/null; }
how=(--dry-run -Werror)
[ "${1:-}" != --write ] || how=(-i)
git ls-files -z '*.cpp' '*.h' '*.cu' | xargs -0 -P "$(nproc)" -n 200 clang-format "${how[@]}"
