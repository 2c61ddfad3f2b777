#!/usr/bin/env bash
# Real training inside a sweep, on the CPU: a space over sequence length, batch size and checkpointing in which one
# cell does not fit into the memory that it may take, and two more experiments of which one breaks a rule and one
# lacks its dataset. usage: tests/sweep/real.sh SFTBENCH [HOST_MEMORY=2000MiB]
set -euo pipefail
program=$(realpath "${1:?usage: real.sh SFTBENCH [HOST_MEMORY]}")
memory=${2:-2000MiB}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
dataset=news-tokens-16384plus-entries-4096
# A short file under the default dataset's name: 256 entries are more than any cell reads.
"$program" --no-progress dataset text -o "$work/data/$dataset.jsonl" \
  --num-max-gpus 1 --num-max-batch-size 64 --num-gradient-accumulation-steps 4 --tokens-output 400

experiment() {  # what it fixes besides: a property and its value, or nothing
  cat <<YAML
- experimentIdentifier: finetune_full_benchmark-v1.0.0
  actuatorIdentifier: SFTTrainer
  parameterization:
  - {property: {identifier: max_steps}, value: 1}
  - {property: {identifier: gradient_accumulation_steps}, value: 1}
YAML
  if (($# == 2)); then echo "  - {property: {identifier: $1}, value: $2}"; fi
}
entities() {  # lengths, batch sizes, further dimensions
  cat <<YAML
entitySpace:
- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}
- {identifier: number_gpus, propertyDomain: {values: [0]}}
- {identifier: model_max_length, propertyDomain: {values: $1}}
- {identifier: batch_size, propertyDomain: {values: $2}}
$3
actuatorConfiguration: {actuatorIdentifier: SFTTrainer, parameters: {data_directory: $work/data}}
YAML
}
head="sampleStoreIdentifier: real
weights: random
experiments:"
checkpointing="- {identifier: gradient_checkpointing, propertyDomain: {variableType: BINARY_VARIABLE_TYPE}}"
{ echo "$head"; experiment; entities "[32, 64, 128]" "[1, 16]" "$checkpointing"; } >"$work/space.yaml"
{ echo "$head"; experiment number_nodes 2; experiment dataset_id news-chars-1024-entries-256
  entities "[32]" "[1]" ""; } >"$work/faults.yaml"

sweep() {  # space, options: sets `status` and `seconds`
  local begin=$EPOCHREALTIME
  status=0
  "$program" sweep "$@" -o "$work/results" --host-memory "$memory" --max-quick-failures 0 || status=$?
  seconds=$(awk -v a="$begin" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.2f", b - a }')
  echo "exit status $status after $seconds s"
}
expect() { if [[ $2 != "$3" ]]; then echo "$1: $2, not $3"; exit 1; fi }
reasons() {
  "${PYTHON:-/usr/bin/python3}" - "$work/results" <<'PYTHON'
import collections, json, pathlib, sys
results = [json.loads(p.read_text()) for p in pathlib.Path(sys.argv[1]).glob("*/*.json")]
print(sorted(collections.Counter(r["status"] + (" " + r["reason"]["code"] if r["reason"] else "") for r in results).items()))
PYTHON
}

sweep "$work/faults.yaml"
expect "exit status with a dataset that is missing" "$status" 4
sweep "$work/space.yaml"
expect "exit status with a cell out of memory" "$status" 4
expect "results" "$(reasons)" "[('failed DATA', 1), ('failed OOM_HOST', 1), ('invalid RULE_2', 1), ('valid', 11)]"
sweep "$work/space.yaml" --no-retry-failed
expect "exit status of the second run" "$status" 4
awk -v s="$seconds" 'BEGIN { exit !(s <= 1) }' || { echo "the second run took $seconds s"; exit 1; }
