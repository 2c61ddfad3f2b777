#!/usr/bin/env bash
# What workers that share a folder cost beside one, and how fast a worker starts where there are many results.
# Simulated cells that take no time of their own, so that all that is left is the program's work.
# usage: workers.sh SFTBENCH [CELLS=1000] [STANDING=100000] [WORKERS="1 4 16 64"] [SCRATCH_FOLDER]
# CLAIMS: "locks leases"
set -euo pipefail
program=$(realpath "${1:?usage: workers.sh SFTBENCH [CELLS] [STANDING] [WORKERS] [SCRATCH_FOLDER]}")
cells=${2:-1000} standing=${3:-100000} workers=${4:-1 4 16 64}
scratch=$(mktemp -d -p "${5:-${TMPDIR:-/tmp}}")
trap 'rm -rf "$scratch"' EXIT

space() {  # file, batch sizes, first length, lengths
  cat >"$scratch/$1" <<YAML
sampleStoreIdentifier: workers
experiments:
- {experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer,
   parameterization: [{property: {identifier: max_steps}, value: 5}]}
entitySpace:
- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}
- {identifier: number_gpus, propertyDomain: {values: [2]}}
- {identifier: gpu_model, propertyDomain: {values: [NVIDIA-H100-PCIe]}}
- {identifier: model_max_length, propertyDomain: {domainRange: [$3, $(($3 + $4))], interval: 1}}
- {identifier: batch_size, propertyDomain: {values: [$2]}}
YAML
}

seconds() { date +%s.%N; }
# Of all that this shell has waited for.
processor_seconds() {
  times >"$scratch/times"
  tail -1 "$scratch/times" | tr 'ms' '  ' | awk '{ print $1 * 60 + $2 + $3 * 60 + $4 }'
}

# Every cell once: results, second samples and files aside, and how often workers say that they began a cell.
share() {  # claims, workers
  local folder=$scratch/$1-$2 begin
  begin=$(seconds)
  processor_seconds >"$scratch/before"
  for ((i = 0; i < $2; ++i)); do
    "$program" sweep "$scratch/cells.yaml" -o "$folder" --worker --locking "$1" --backend simulate \
      >/dev/null 2>"$scratch/worker.$i" &
  done
  wait
  local end results again begun busy
  end=$(seconds)
  processor_seconds >"$scratch/after"
  results=$(find "$folder" -name '*.json' ! -name '*.*.json' | wc -l)
  again=$(find "$folder" -name '*.*.json' -o -name '*.json.*' | wc -l)
  begun=$(cat "$scratch"/worker.* | grep -c '^start ')
  busy=$(cat "$scratch"/worker.* | grep -c '^busy ' || true)
  rm "$scratch"/worker.*
  awk -v kind="$1" -v workers="$2" -v cells="$cells" -v results="$results" -v again="$again" -v begun="$begun" \
    -v busy="$busy" -v wall="$end $begin" \
    -v processor="$(<"$scratch/after") $(<"$scratch/before")" 'BEGIN {
      split(wall, w, " "); split(processor, p, " ")
      printf "%-7s %3d workers: %.2f ms of wall time and %.2f ms of processor time per cell; %d cells: %d lost, " \
        "%d results doubled, %d cells begun, %d times another worker was met\n", kind, workers, (w[1] - w[2]) / cells * 1000,
        (p[1] - p[2]) / cells * 1000, cells, cells - results, again, begun, busy }'
  rm -rf "$folder"
}

until_first_cell() {  # label, space, options...
  local label=$1 space=$2 begin first
  shift 2
  begin=$(seconds)
  # Its exit status says that cells remain.
  first=$({ "$program" sweep "$scratch/$space" -o "$scratch/standing" --backend simulate --limit 1 "$@" \
    2>&1 >/dev/null || true; } | awk '/^(start |\[)/ && !seen++ { system("date +%s.%N") }')
  awk -v label="$label" -v first="$first" -v begin="$begin" \
    'BEGIN { printf "%-52s %.2f s until its first cell\n", label, first - begin }'
}

echo "$(nproc) cores, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), load $(cut -d' ' -f1-3 /proc/loadavg)"
echo "$cells cells into $(stat -f -c %T "$scratch"), the scratch folder's file system"
space cells.yaml 2 64 "$cells"
for claims in ${CLAIMS:-locks leases}; do
  for count in $workers; do share "$claims" "$count"; done
done

[ "$standing" -gt 0 ] || exit 0
# Odd batch sizes break a rule: they settle without a process.
space standing.yaml "1, 3, 5, 7, 9, 11, 13, 15, 17, 19" 64 $((standing / 10))
space more.yaml "2, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19" 64 $((standing / 10))
space last.yaml "1, 3, 5, 7, 9, 11, 13, 15, 17, 19" 64 $((standing / 10 + 10))
"$program" sweep "$scratch/standing.yaml" -o "$scratch/standing" --backend simulate --no-progress --log-level off \
  >/dev/null
echo "$(find "$scratch/standing" -name '*.json' | wc -l) results stand in the folder"
for claims in locks leases; do
  until_first_cell "one cell of eleven is left, $claims" more.yaml --worker --locking "$claims"
done
until_first_cell "the last 100 cells are left, from the beginning" last.yaml
TIMEFORMAT="%R s real, %U s user, %S s system"
echo "status of the folder:"
time "$program" status "$scratch/standing" >/dev/null
echo "status of the folder and the space:"
time "$program" status "$scratch/standing" "$scratch/more.yaml" --backend simulate >/dev/null
