#!/usr/bin/env bash
# Looks at what nvcc makes of the kernels that stream through memory: each must load and store 16 bytes at a time in the
# variants that are made for it. (That none spills registers the build itself sees to: src/CMakeLists.txt.) Needs nvcc
# and the build folder of tests/cuda/run.sh. usage: tests/cuda/kernels.sh [NAME...], of files in src/train/ops/cuda
set -euo pipefail
cd "$(dirname "$0")/../.."
export PATH="$PATH:/usr/local/cuda/bin"
if ! command -v nvcc >/dev/null; then
  echo "skipped: no nvcc on this machine"
  exit 0
fi
[ -f build/cuda/build.ninja ] || { echo "build/cuda is not configured: run tests/cuda/run.sh" >&2; exit 1; }
[ $# -gt 0 ] || set -- swiglu rms_norm cross_entropy rope gated_norm route expert_bias dropout
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# kernel loads_of_16 stores_of_16, one line a kernel
accesses() {
  awk '/\.entry/ { name = $0; sub(/.*\.entry /, "", name); sub(/\(.*/, "", name); loads[name] = stores[name] = 0 }
    /ld\.global[a-zA-Z0-9_.:]*\.(v4\.[a-z]*32|v2\.[a-z]*64)/ { ++loads[name] }
    /st\.global[a-zA-Z0-9_.:]*\.(v4\.[a-z]*32|v2\.[a-z]*64)/ { ++stores[name] }
    END { for (name in loads) print name, loads[name], stores[name] }' "$1"
}

look() {  # NAME: into $work, beside the others
  local name=$1 ptx=$work/$1.ptx command kernels wide
  command=$(ninja -C build/cuda -t commands "src/CMakeFiles/sftbench_ops.dir/ops/cuda/$name.cu.o" | tail -1)
  command=$(sed 's/-gencode [^ ]*//g; s/ -MD//; s/ -M[TF] [^ ]*//g; s/ -c / -ptx -arch=sm_90 /; s/ -o [^ ]*$//' <<<"$command")
  (cd build/cuda && eval "$command -o '$ptx'")
  read -r kernels wide < <(accesses "$ptx" | awk '{ ++all; wide += $2 > 0 && $3 > 0 } END { print all + 0, wide + 0 }')
  echo "$name: $wide of $kernels kernels load and store 16 bytes at a time"
  # The others are for rows that are not aligned, or for the loss alone.
  if [ $((2 * wide)) -lt "$kernels" ] || [ "$kernels" -eq 0 ]; then
    accesses "$ptx"
    return 1
  fi
}

status=0 looks=()
for name; do
  look "$name" &
  looks+=($!)
done
for look in "${looks[@]}"; do wait "$look" || status=1; done
exit $status
