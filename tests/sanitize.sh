#!/usr/bin/env bash
# Builds and runs tests under sanitizers, of modules without libtorch, which is not built for them.
#   sanitize.sh address   (default) addresses and undefined behavior: what reads what comes from outside
#   sanitize.sh thread    data races: ranks and what they say to each other, the sampler, timelines, downloads side by side,
#                         predictions
#   sanitize.sh KIND K/N  a part of the modules, the Kth of N (0/2, 1/2)
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:-address}

case $kind in
  address) preset=asan modules=(base ranks catalog space huggingface families plan tokenizer jinja data checkpoint measure results simulate sweep predict) ;;
  thread) preset=tsan modules=(ranks huggingface measure advise) ;;
  *) echo "usage: sanitize.sh [address|thread] [K/N]" >&2; exit 2 ;;
esac

part=${2:-0/1}
chosen=()
for i in "${!modules[@]}"; do [ $((i % ${part#*/})) -ne "${part%/*}" ] || chosen+=("${modules[i]}"); done
echo "${chosen[*]}"

mkdir -p "build/$preset"
cmake --preset "$preset" >"build/$preset-configure.log" 2>&1 || { cat "build/$preset-configure.log" >&2; exit 1; }
cmake --build --preset "$preset" --target "${chosen[@]/%/_test}"
IFS='|'
ctest --test-dir "build/$preset" --output-on-failure --timeout 1800 -j "$(nproc)" -L "^(${chosen[*]})\$"
