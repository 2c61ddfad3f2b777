#!/usr/bin/env bash
# How long reports take over COUNT results (100000), read from the page cache, three times each.
# usage: bench/report/run.sh BUILD [COUNT]     BUILD: folder with bin/sftbench and bin/make_results
set -euo pipefail
build=${1:?usage: bench/report/run.sh BUILD [COUNT]}
count=${2:-100000}
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT

"$build/bin/make_results" "$directory/results" "$count"
report() {
  TIMEFORMAT="%R s real, %U s user, %S s system: report $*"
  time "$build/bin/sftbench" --log-level warn report "$directory/results" "$@" -o "$directory/out"
}
report --format csv >/dev/null 2>&1  # from here on, everything is in the page cache
for _ in 1 2 3; do report --format csv; done
for _ in 1 2 3; do report --format csv --wide; done
for _ in 1 2 3; do report --format html; done
report --format jsonl
