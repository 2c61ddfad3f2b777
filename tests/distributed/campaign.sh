#!/usr/bin/env bash
# One campaign on engines as real as they come: `sweep --on slurm` through two slurmd on two hosts (hosts.sh,
# launchers.sh), `sweep --on ray` through a Ray cluster of two nodes of PyPI's ray, `sweep --on local`. 20 simulated
# cells each, GPUs and custom resources made up; prints the counts. Every cell is measured once, also when a
# worker is told that its time limit is near, when a node is lost and when the command is given again.
# Exit 77, with the reason, where an engine cannot be had.
#
# `faults` has 200 simulated cells and 8 that train on CPUs, through Slurm and Ray, with a node killed in the middle, a
# worker stopped for longer than its lease, and the controller restarted. slurm-simulated, slurm-cpu, ray-simulated and
# ray-cpu are its four parts.
#
# usage: tests/distributed/campaign.sh SFTBENCH [local|slurm|ray|faults]...
#   RAY       Ray's command; without it a virtual environment is made with PyPI's ray
#   PROGRAM   what workers call in place of SFTBENCH
set -euo pipefail
sftbench=$(realpath "${1:?usage: campaign.sh SFTBENCH [local|slurm|ray|faults|ray-cpu]...}")
shift
here=$(cd "$(dirname "$0")" && pwd)
. "$here/hosts.sh"
. "$here/launchers.sh"
program=$(realpath "${PROGRAM:-$sftbench}")
work=$(mktemp -d)
ray_is_up=
clean() {
  [ -z "$ray_is_up" ] || "$RAY" stop --force >/dev/null 2>&1 || true
  hosts_down
  rm -rf "$work"
}
trap clean EXIT

cat >"$work/space.yaml" <<'YAML'
experiments:
- {experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer}
entitySpace:
- {identifier: model_name, propertyDomain: {values: [llama3.1-8b]}}
- {identifier: gpu_model, propertyDomain: {values: [NVIDIA-A100-SXM4-80GB]}}
- {identifier: number_gpus, propertyDomain: {values: [1, 2]}}
- {identifier: model_max_length, propertyDomain: {values: [512, 1024]}}
- {identifier: batch_size, propertyDomain: {values: [2, 4, 8, 16, 32]}}
YAML
simulated=(--backend simulate --no-progress)

# A worker that is at work until it is asked to end, the first time that one is started in FOLDER.
slow_program() { # FOLDER
  cat >"$1/slow" <<SLOW
#!/usr/bin/env bash
if mkdir "$1/first" 2>/dev/null; then
  trap 'exit 130' TERM
  : >"$1/at-work"
  while :; do sleep 0.1; done
fi
exec "$program" "\$@"
SLOW
  chmod +x "$1/slow"
}

wait_until() { # SECONDS COMMAND...
  local end_s=$(($(date +%s) + $1))
  shift
  until "$@"; do
    [ "$(date +%s)" -lt $end_s ] || { echo "in vain waited for: $*"; return 1; }
    sleep 0.2
  done
}

# Every cell has one result, none a second one; nothing is left to measure.
settled() { # WHAT RESULTS
  local cells seconds left
  cells=$(find "$2" -name '*.json' ! -name '*.*.json' | wc -l)
  seconds=$(find "$2" -name '*.2.json' -o -name '*.json.*' | wc -l)
  left=$("$sftbench" sweep "$work/space.yaml" "${simulated[@]}" -o "$2" --dry-run --format csv | grep -c '^measure,' || true)
  echo "$1: $cells of 20 cells have a result, $seconds a second one, $left are left"
  [ "$cells $seconds $left" = "20 0 0" ]
}

on_local() {
  mkdir "$work/local"
  "$sftbench" sweep "$work/space.yaml" "${simulated[@]}" -o "$work/local/results" --on local --workers 2 \
    --program "$program" >"$work/local/out" 2>&1 || { cat "$work/local"/out "$work"/local/results/workers/*; return 1; }
  settled "local, 2 workers" "$work/local/results"
}

queue_is_empty() { [ -z "$(on n1 squeue -h 2>/dev/null)" ]; }

on_slurm() {
  local job results=$work/slurm/results
  hosts_up
  trap clean EXIT
  install_launchers
  SLURM_GPUS=2 slurm_up
  mkdir -p "$work/slurm" && chmod -R go+rX "$work"
  echo "Slurm: $(on n1 sinfo --version), $(on n1 sinfo -h -o '%D nodes with %G')"

  on n1 "$sftbench" sweep "$work/space.yaml" "${simulated[@]}" -o "$results" --on slurm --submit --workers 3 \
    --program "$program"
  wait_until 120 queue_is_empty
  settled "slurm, 2 arrays of 3 workers" "$results" || { cat "$results"/slurm/*; return 1; }
  on n1 "$sftbench" sweep "$work/space.yaml" "${simulated[@]}" -o "$results" --on slurm --submit 2>&1 |
    grep 'there is nothing to start'

  echo "slurm: the printed script, through bash"
  on n1 "$sftbench" sweep "$work/space.yaml" "${simulated[@]}" -o "$work/slurm/printed" --on slurm --workers 2 \
    --program "$program" >"$work/slurm/script"
  on n1 bash "$work/slurm/script"
  wait_until 120 queue_is_empty
  settled "slurm, printed" "$work/slurm/printed" || { cat "$work"/slurm/printed/slurm/*; return 1; }

  echo "slurm: the time limit comes near"
  slow_program "$work/slurm"
  job=$(on n1 "$sftbench" sweep "$work/space.yaml" "${simulated[@]}" -o "$work/slurm/limit" --on slurm --submit \
    --workers 1 --set number_gpus=1 --program "$work/slurm/slow" | awk '{ print $1 }')
  wait_until 60 test -e "$work/slurm/at-work"
  on n1 scancel --batch --signal=USR1 "${job}_0"
  # Slurm waits two minutes before it starts a task again, for its credentials to expire.
  wait_until 300 queue_is_empty
  "$sftbench" sweep "$work/space.yaml" "${simulated[@]}" -o "$work/slurm/limit" --set number_gpus=2 >/dev/null 2>&1
  settled "slurm, requeued" "$work/slurm/limit" || { cat "$work"/slurm/limit/slurm/*; return 1; }

  echo "slurm: an option that the cluster does not have"
  on n1 "$sftbench" sweep "$work/space.yaml" "${simulated[@]}" -o "$work/slurm/none" --on slurm --submit \
    --slurm partition=nowhere 2>&1 | tee "$work/slurm/refused" && return 1
  grep -q 'sbatch: refuses the group .*invalid partition' "$work/slurm/refused"
}

find_ray() {
  [ -z "${RAY:-}" ] || return 0
  python3 -m venv "$work/venv" >/dev/null 2>&1 || skip "python3 makes no virtual environment (Debian: python3-venv)"
  echo "Installing ray"
  "$work/venv/bin/pip" install -q 'ray[default]' >"$work/pip.log" 2>&1 || skip "ray cannot be installed: $(tail -n 1 "$work/pip.log")"
  RAY=$work/venv/bin/ray
}

# Its own process in the background: a function there would be a shell, which signals end in its place.
ray_words() { # RESULTS, more options: sets words
  local results=$1
  shift
  words=("$sftbench" sweep "$work/space.yaml" "${simulated[@]}" -o "$results" --on ray
    --ray-address "http://127.0.0.1:$dashboard" "$@")
}

ray_node() { # head or address
  "$RAY" start "$@" --num-cpus 8 --num-gpus 4 --object-store-memory 100000000 --disable-usage-stats \
    --resources '{"NVIDIA-A100-SXM4-80GB": 4, "full-worker": 1, "RoCE": 1}' >>"$work/ray.log" 2>&1 ||
    { tail -n 20 "$work/ray.log"; return 1; }
}

start_ray() {
  ray_node --head --port 26379 --dashboard-port "$dashboard" --dashboard-host 127.0.0.1
  ray_node --address 127.0.0.1:26379
}

on_ray() {
  local follower
  find_ray
  dashboard=28265 ray_is_up=yes
  mkdir "$work/ray"
  start_ray
  echo "Ray: $("$RAY" --version), two nodes with 4 GPUs each, none of which is real"
  ray_words "$work/ray/results" --workers 2 --program "$program"
  "${words[@]}" >"$work/ray/out" 2>&1 || { cat "$work/ray/out"; return 1; }
  settled "ray, 2 groups of 2 jobs" "$work/ray/results" || { cat "$work/ray/out"; return 1; }
  "${words[@]}" 2>&1 | grep 'there is nothing to start'

  echo "ray: the follower is killed, and another one follows the same job"
  slow_program "$work/ray"
  ray_words "$work/ray/again" --workers 1 --set number_gpus=1 --program "$work/ray/slow"
  "${words[@]}" >"$work/ray/first.out" 2>&1 &
  follower=$!
  wait_until 120 test -e "$work/ray/at-work"
  kill -KILL $follower
  wait $follower 2>/dev/null || true
  "${words[@]}" >"$work/ray/second.out" 2>&1 &
  follower=$!
  wait_until 60 grep -q 'runs already' "$work/ray/second.out"

  echo "ray: its head goes away and comes back, without the jobs"
  "$RAY" stop --force >>"$work/ray.log" 2>&1
  wait_until 60 grep -q 'trying again' "$work/ray/second.out"
  start_ray
  wait $follower || { cat "$work/ray/second.out"; return 1; }
  "$sftbench" sweep "$work/space.yaml" "${simulated[@]}" -o "$work/ray/again" --set number_gpus=2 >/dev/null 2>&1
  settled "ray, head lost" "$work/ray/again" || { cat "$work/ray/second.out"; return 1; }

  echo "ray: Ctrl-C stops the jobs"
  rm -r "$work/ray/first" "$work/ray/at-work"
  ray_words "$work/ray/stopped" --workers 1 --set number_gpus=1 --program "$work/ray/slow"
  "${words[@]}" >"$work/ray/stop.out" 2>&1 &
  follower=$!
  wait_until 120 test -e "$work/ray/at-work"
  kill -TERM $follower
  local status=0
  wait $follower || status=$?
  [ $status -eq 130 ] || { cat "$work/ray/stop.out"; return 1; }
  "$RAY" stop --force >>"$work/ray.log" 2>&1
}

# --- campaigns with faults ---

# Cells that take a while, or train a small model on CPUs; leases, so that a worker that is stopped loses its cell.
faulty_space() { # KIND: simulated or cpu. Sets cells, space, faulty
  if [ "$1" = simulated ]; then
    cells=200
    faulty=(--backend simulate --simulate steps=5 --simulate sleep_s=0.05)
    sed 's/model_max_length, .*/model_max_length, propertyDomain: {domainRange: [512, 532], interval: 1}}/' \
      "$work/space.yaml" >"$work/simulated.yaml"
  else
    cells=8
    faulty=(--threads 1)
    cat >"$work/cpu.yaml" <<'YAML'
weights: random
experiments:
- {experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer,
   parameterization: [{property: {identifier: max_steps}, value: 4}]}
entitySpace:
- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}
- {identifier: number_gpus, propertyDomain: {values: [0]}}
- {identifier: model_max_length, propertyDomain: {values: [32, 48, 64, 80]}}
- {identifier: batch_size, propertyDomain: {values: [1, 2]}}
YAML
  fi
  space=$work/$1.yaml
  faulty+=(--locking leases --lease 3 --max-quick-failures 0)
}

results_in() { find "$1" -name '*.json' ! -name '*.*.json' 2>/dev/null | wc -l; }
has_results() { [ "$(results_in "$1")" -ge "$2" ]; }

# The workers of a folder of results, on whichever host they run: outside, all have numbers.
workers_of() { # RESULTS
  local process
  for process in $(pgrep -x sftbench); do
    tr '\0' ' ' <"/proc/$process/cmdline" 2>/dev/null | grep -q -- "--worker -o $1 \$" && echo "$process"
  done
  true
}

pause_one() { # RESULTS: for longer than the lease
  paused=$(workers_of "$1" | sed -n 1p)
  [ -n "$paused" ] || return 0
  # shellcheck disable=SC2046
  kill -STOP $paused $(pgrep -P $paused || true) || true
}

go_on() {
  # shellcheck disable=SC2046
  [ -z "$paused" ] || kill -CONT $paused $(pgrep -P $paused || true) 2>/dev/null || true
}

count_campaign() { # WHAT RESULTS LOG...: counts, and false when a cell is missing, doubled or failed
  local what=$1 results=$2 found doubled begun valid
  shift 2
  found=$(results_in "$results")
  doubled=$(find "$results" -name '*.2.json' -o -name '*.json.*' ! -name '*.series.json.gz' | wc -l)
  valid=$(find "$results" -name '*.json' ! -name '*.*.json' -exec grep -lE '^  "status": "(valid|invalid)"' {} + | wc -l)
  begun=$(cat "$@" 2>/dev/null | grep -c '^start ' || true)
  echo "$what: $found of $cells cells have a result, $valid are valid or invalid, $doubled have a second one, $begun were begun"
  [ "$found $valid $doubled" = "$cells $cells 0" ]
}

slurm_with_faults() { # simulated or cpu
  local results=$work/faults/slurm-$1 try
  faulty_space "$1"
  hosts_up
  trap clean EXIT
  install_launchers
  SLURM_GPUS=2 slurm_up
  mkdir -p "$work/faults" && chmod -R go+rX "$work"
  on n1 "$sftbench" sweep "$space" "${faulty[@]}" -o "$results" --on slurm --submit --workers 3 --program "$program"
  wait_until 120 has_results "$results" $((cells / 4))
  pause_one "$results"
  # The controller is killed and comes back; it finds its jobs.
  on n1 pkill -KILL -x slurmctld
  sleep 1
  background n1 slurmctld -D
  # All that n2 ran is gone, its slurmd included.
  kill -KILL "${host_process[n2]}"
  sleep 5
  go_on
  wait_until 300 has_results "$results" $cells
  on n1 scancel --user=root || true
  for try in {1..50}; do [ -z "$(workers_of "$results")" ] && break || sleep 0.2; done
  count_campaign "slurm, $cells cells ($1), n2 killed, a worker stopped for 5 s, slurmctld restarted" "$results" \
    "$results"/slurm/*.log || { tail -n 20 "$results"/slurm/*.log; return 1; }
  hosts_down
}

ray_with_faults() { # simulated or cpu
  local results=$work/faults/ray-$1 follower second status=0
  faulty_space "$1"
  find_ray
  dashboard=28265 ray_is_up=yes
  mkdir -p "$work/faults"
  ray_node --head --port 26379 --dashboard-port "$dashboard" --dashboard-host 127.0.0.1
  ray_node --address 127.0.0.1:26379
  second=$(pgrep -n -x raylet)
  words=("$sftbench" sweep "$space" "${faulty[@]}" -o "$results" --on ray
    --ray-address "http://127.0.0.1:$dashboard" --workers 3 --program "$program")
  "${words[@]}" >"$work/faults/ray-$1.first" 2>&1 &
  follower=$!
  wait_until 180 has_results "$results" $((cells / 4))
  pause_one "$results"
  # The controller: who follows the jobs.
  kill -KILL $follower
  wait $follower 2>/dev/null || true
  "${words[@]}" >"$work/faults/ray-$1.second" 2>&1 &
  follower=$!
  # A node with all that it runs.
  # shellcheck disable=SC2046
  kill -KILL $second $(pgrep -P $second || true) || true
  sleep 5
  go_on
  wait $follower || status=$?
  count_campaign "ray, $cells cells ($1), a node killed, a worker stopped for 5 s, the follower restarted" "$results" \
    /tmp/ray/session_latest/logs/job-driver-sftbench-*.log || { tail -n 40 "$work/faults/ray-$1.second"; return 1; }
  [ $status -eq 0 ] || echo "  the command ended with status $status"
  "$RAY" stop --force >>"$work/ray.log" 2>&1
}

on_faults() {
  local kind
  for kind in simulated cpu; do
    slurm_with_faults $kind
    ray_with_faults $kind
  done
}

[ $# -gt 0 ] || set -- local slurm ray
for case; do
  case $case in
    local | slurm | ray | faults) on_$case ;;
    slurm-simulated | slurm-cpu | ray-simulated | ray-cpu) "${case%-*}_with_faults" "${case#*-}" ;;
    *) echo "unknown case $case" && exit 2 ;;
  esac
done
echo "campaigns: all as it should be"
