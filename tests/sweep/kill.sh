#!/usr/bin/env bash
# Kills sweeps and their children with SIGKILL at random instants, starting the sweep again each time, and holds
# the store to its promise: in the end one result per cell, none torn, none measured twice once it was settled,
# nothing left lying about.
# usage: tests/sweep/kill.sh SFTBENCH [CELLS=200] [KILLS=50] [SWEEPS=1]
#   KILLS  of parents, and as many of children; SWEEPS on one folder at the same time
# STEP_S (0.06): seconds of each of a cell's three steps. Long enough, or the cells are done before the kills.
set -euo pipefail
program=${1:?usage: kill.sh SFTBENCH [CELLS] [KILLS] [SWEEPS]}
cells=${2:-200} kills=${3:-50} sweeps=${4:-1}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
pids=()
finish() {
  for pid in "${pids[@]}"; do kill -9 "$pid" 2>/dev/null || true; done
  rm -rf "$work"
}
trap finish EXIT

# CELLS entities, a fifth of which breaks a rule.
lengths=$((cells / 5))
cat >"$work/space.yaml" <<YAML
experiments:
- {experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer,
   parameterization: [{property: {identifier: max_steps}, value: 3}]}
entitySpace:
- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}
- {identifier: number_gpus, propertyDomain: {values: [2]}}
- {identifier: gpu_model, propertyDomain: {values: [NVIDIA-H100-PCIe]}}
- {identifier: model_max_length, propertyDomain: {domainRange: [64, $((64 + lengths))], interval: 1}}
- {identifier: batch_size, propertyDomain: {values: [2, 4, 5, 6, 8]}}
YAML
sweep=("$program" sweep "$work/space.yaml" -o "$work/results" --backend simulate --simulate "sleep_s=${STEP_S:-0.06}"
  --max-quick-failures 0)

start() {  # the sweep number $1
  "${sweep[@]}" >/dev/null 2>>"$work/sweep-$1.log" &
  pids[$1]=$!
}

settle() { "$python" "$here/settled.py" "$work/results" "$work/settled.json" "$@"; }

random_ms() { echo $((RANDOM % $1)); }
nap() { sleep "$(printf '0.%03d' "$1")"; }

parents=0 children=0 starts=0
for ((i = 0; i < sweeps; ++i)); do start "$i"; starts=$((starts + 1)); done
while ((parents < kills || children < kills)); do
  nap "$(random_ms 300)"
  victim=$((RANDOM % sweeps))
  child=$(pgrep -P "${pids[$victim]}" | shuf -n 1 || true)
  if ((children < kills)) && [[ -n $child ]] && kill -9 "$child" 2>/dev/null; then
    children=$((children + 1))
  fi
  nap "$(random_ms 200)"
  if ! kill -9 "${pids[$victim]}" 2>/dev/null; then
    echo "done after $parents parents and $children children were killed: raise STEP_S" >&2
    exit 1
  fi
  parents=$((parents + 1))
  wait "${pids[$victim]}" 2>/dev/null || true
  settle
  start "$victim"
  starts=$((starts + 1))
done
for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
pids=()

"${sweep[@]}" >"$work/last" 2>>"$work/sweep-last.log" || { cat "$work/last"; exit 1; }
settle --cells "$cells"
cat "$work"/sweep-*.log | "$python" "$here/told_once.py"
echo "$cells cells: $parents parents and $children children killed, $starts starts, $sweeps at a time"
