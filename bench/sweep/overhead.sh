#!/usr/bin/env bash
# What a sweep costs beside its measurements: simulated cells that take no time of their own, so that all that is
# left is the program's work (plan, lock, child process, result file with fsync, log).
# usage: overhead.sh SFTBENCH [CELLS=1000] [SCRATCH_FOLDER]
set -euo pipefail
program=$(realpath "${1:?usage: overhead.sh SFTBENCH [CELLS] [SCRATCH_FOLDER]}")
cells=${2:-1000}
scratch=$(mktemp -d -p "${3:-${TMPDIR:-/tmp}}")
trap 'rm -rf "$scratch"' EXIT
cat >"$scratch/space.yaml" <<YAML
sampleStoreIdentifier: overhead
experiments:
- {experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer,
   parameterization: [{property: {identifier: max_steps}, value: 5}]}
entitySpace:
- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}
- {identifier: number_gpus, propertyDomain: {values: [1]}}
- {identifier: gpu_model, propertyDomain: {values: [NVIDIA-H100-PCIe]}}
- {identifier: model_max_length, propertyDomain: {domainRange: [64, $((64 + cells))], interval: 1}}
- {identifier: batch_size, propertyDomain: {values: [2]}}
YAML

milliseconds() { echo $(($(date +%s%N) / 1000000)); }

sweep() {  # label, options...
  local label=$1 begin end
  shift
  begin=$(milliseconds)
  "$program" sweep "$scratch/space.yaml" --backend simulate --no-progress --log-level off "$@" >/dev/null
  end=$(milliseconds)
  awk -v label="$label" -v ms=$((end - begin)) -v cells="$cells" \
    'BEGIN { printf "%-42s %7.2f s %8.2f ms per cell\n", label, ms / 1000, ms / cells }'
}

echo "$(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), load $(cut -d' ' -f1-3 /proc/loadavg)"
echo "$cells cells into $(stat -f -c %T "$scratch"), the scratch folder's file system"
sweep "one at a time" -o "$scratch/one"
sweep "the same again: nothing is measured" -o "$scratch/one"
sweep "as many at a time as cores" -o "$scratch/auto" --jobs auto
