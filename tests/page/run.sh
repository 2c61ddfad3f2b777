#!/usr/bin/env bash
# Looks at the page of `sftbench report --format html` in a headless Chromium, which it installs (as root).
# usage: tests/page/run.sh [--large] [unittest options...]     --large: 100,000 results as well, some minutes
set -euo pipefail
cd "$(dirname "$0")/../.."

if [ "${1:-}" = --large ]; then
  export SFTBENCH_PAGE_LARGE=1
  shift
fi
missing=()
for package in chromium-headless-shell python3-websocket python3-xxhash; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "Installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

program="${SFTBENCH:-build/release/bin/sftbench}"
if [ ! -x "$program" ]; then
  echo "tests/page/run.sh: no $program; build first, or name one in \$SFTBENCH" >&2
  exit 2
fi
exec /usr/bin/python3 tests/page/check.py "$(realpath "$program")" "$@"
