#!/usr/bin/env bash
# Fuzzes every reader of files from outside for SECONDS each (clang and libFuzzer).
# usage: run.sh [SECONDS] [K/N | TARGET...]
#   K/N   a part of the readers, the Kth of N (0/2, 1/2)
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-600}
if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
  echo "usage: tests/fuzz/run.sh [SECONDS] [K/N | TARGET...]" >&2
  exit 2
fi
shift || true
if [[ ${1:-} =~ ^([0-9]+)/([1-9][0-9]*)$ ]]; then
  part=${BASH_REMATCH[1]} parts=${BASH_REMATCH[2]} names=()
  for source in tests/fuzz/*_fuzz.cpp; do names+=("$(basename "$source" .cpp)"); done
  set --
  for i in "${!names[@]}"; do [ $((i % parts)) -ne "$part" ] || set -- "$@" "build/fuzz/bin/${names[i]}"; done
fi
built=()
[ $# -eq 0 ] || built=(--target "${@##*/}")

if ! command -v clang++ >/dev/null || ! ls /usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer* >/dev/null 2>&1; then
  apt-get update -qq && apt-get install -y -qq --no-install-recommends clang libclang-rt-14-dev >/dev/null
fi
cmake --preset fuzz >build/fuzz-configure.log 2>&1 || { cat build/fuzz-configure.log >&2; exit 1; }
cmake --build --preset fuzz "${built[@]}"
[ $# -gt 0 ] || set -- build/fuzz/bin/*_fuzz
for binary; do
  name=$(basename "$binary")
  corpus=build/fuzz/corpus/$name
  mkdir -p "$corpus"
  seeds=()
  [ -d "tests/fuzz/seeds/$name" ] && seeds=("tests/fuzz/seeds/$name")
  echo "--- $name, $seconds s"
  "$binary" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -verbosity=0 \
    -artifact_prefix="build/fuzz/$name-" "$corpus" "${seeds[@]}" 2>&1 | grep -vE '^(INFO|Loaded)' | tail -n 20
done
