#!/usr/bin/env bash
# Loading speed beside cat, and the speed of the random initializer. usage: run.sh BUILD_FOLDER [SCRATCH_FOLDER]
# The build folder is one configured with -DSFTBENCH_BENCH=ON.
set -euo pipefail
bench=$(realpath "${1:?usage: run.sh BUILD_FOLDER [SCRATCH_FOLDER]}")/bin/loading_bench
scratch=${2:-$(mktemp -d)}
cd "$(dirname "$0")"
echo "$(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), load $(cut -d' ' -f1-3 /proc/loadavg)"
for shape in smollm2-135m llama3.2-1b; do
  echo "--- $shape, bfloat16 file"
  "$bench" write "$shape.json" bfloat16 "$scratch/$shape"
  echo "into bfloat16:" && "$bench" compare bfloat16 "$scratch/$shape"
  echo "into float32:" && "$bench" compare float32 "$scratch/$shape"
  rm -r "${scratch:?}/$shape"
done
