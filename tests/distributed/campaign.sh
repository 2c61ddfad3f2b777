#!/usr/bin/env bash
# One campaign on engines as real as they come: `sweep --on slurm` through two slurmd on two hosts (hosts.sh,
# launchers.sh), `sweep --on ray` through a Ray cluster of two nodes of PyPI's ray, `sweep --on local`. 20 simulated
# cells each, GPUs and custom resources made up; prints the counts. Every cell is measured once, also when a
# worker is told that its time limit is near, when a node is lost and when the command is given again.
# Exit 77, with the reason, where an engine cannot be had.
#
# usage: tests/distributed/campaign.sh SFTBENCH [local|slurm|ray]...
#   RAY       Ray's command; without it a virtual environment is made with PyPI's ray
#   PROGRAM   what workers call in place of SFTBENCH
set -euo pipefail
sftbench=$(realpath "${1:?usage: campaign.sh SFTBENCH [local|slurm|ray]...}")
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

for case in "${@:-local slurm ray}"; do
  for case in $case; do
    case $case in
      local | slurm | ray) on_$case ;;
      *) echo "unknown case $case" && exit 2 ;;
    esac
  done
done
echo "campaigns: all as it should be"
