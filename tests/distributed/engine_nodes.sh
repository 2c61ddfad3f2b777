#!/usr/bin/env bash
# Cells of two nodes, each of four ranks on CPUs, on engines as real as they come: `sweep --nodes 2 --on ray` with a head
# that has no devices and two nodes, `--on slurm` with two slurmd; each host in namespaces of its own (hosts.sh). A node is
# killed in the middle of a cell, on Ray also a raylet alone and a link, and the command is asked to end. Nodes that Ray
# lacks are asked for.
# As root; exit 77, with the reason, where that cannot be done.
#
# usage: tests/distributed/engine_nodes.sh SFTBENCH [cells|gpus|raylet|node|link|stopped|lacking|slurm]...
#   RAY  Ray's command, in an environment with Ray's python3; without it one is made with PyPI's ray
set -euo pipefail
program=$(realpath "${1:?usage: engine_nodes.sh SFTBENCH [CASE]...}")
shift
here=$(cd "$(dirname "$0")" && pwd)
. "$here/hosts.sh"
. "$here/launchers.sh"
hosts_up
work=$hosts_folder/work
mkdir "$work"
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive
head=10.77.0.254

ray_node() { # HOST OPTION...
  on "$1" "$RAY" start --node-ip-address "$(wire "$1" hostname -I | tr -d ' ')" --object-store-memory 100000000 --disable-usage-stats \
    "${@:2}" >>"$work/ray.log" 2>&1 || { tail -n 20 "$work/ray.log"; return 1; }
}

worker_node() { # HOST
  ray_node "$1" --address $head:26379 --num-cpus 8 --num-gpus 4 \
    --resources '{"NVIDIA-A100-SXM4-80GB": 4, "full-worker": 1, "RoCE": 1}'
}

wait_until() { # SECONDS COMMAND...
  local end_s=$(($(date +%s) + $1))
  shift
  until "$@"; do
    [ "$(date +%s)" -lt $end_s ] || { echo "in vain waited for: $*"; tail -n 40 "$work"/*.out; return 1; }
    sleep 0.2
  done
}

sweep() { # NAME OPTION...: on the host of the head
  on switch "$program" sweep --on ray --ray-address http://127.0.0.1:28265 --workers 1 --program "$program" \
    -o "$work/$1" "${@:2}" >>"$work/$1.out" 2>&1
}

cells_of() { # LENGTHS STEPS: sets words
  words=(--experiment finetune_full_benchmark-v1.0.0 --config "$work/config.yaml" --weights random --model "$work/model"
    --ranks 4 --threads "${threads:-1}" --nodes 2 --no-progress --set number_gpus=0 --set "model_max_length=$1" --set batch_size=4
    --set "max_steps=$2" --set distributed_backend=FSDP)
}

simulated=(--experiment finetune_full_benchmark-v1.0.0 --backend simulate --set model_name=llama3.1-8b
  --set gpu_model=NVIDIA-A100-SXM4-80GB --set model_max_length=512 --set batch_size=8)

trains() { # NAME LENGTHS STEPS OPTION...
  cells_of "$2" "$3"
  sweep "$1" "${words[@]}" "${@:4}"
}

settled() { # NAME CELLS: that many valid results of both hosts, and nothing beside them
  python3 - "$work/$1" "$2" <<'PYTHON'
import glob, json, sys
found = [json.load(open(path)) for path in glob.glob(f"{sys.argv[1]}/**/*.json", recursive=True)]
assert len(found) == int(sys.argv[2]), (len(found), sys.argv)
for result in found:
    assert result["status"] == "valid", result["reason"]
    hosts = [rank["host"] for rank in result["extra"].get("ranks", [])]
    assert not hosts or sorted(hosts) == ["n1", "n1", "n2", "n2"] and hosts[0] == hosts[1], hosts
print(f"  {len(found)} valid; ranks on {' '.join(hosts) or 'none, simulated'}")
PYTHON
}

steps_began() { grep -qs ' step: 3 ' "$work/$1"/.*.nodes/results/*/*.log "$work/$1"/*/.*.nodes/results/*/*.log; }

no_rank_is_left() {
  local host
  for host in n1 n2; do on $host pgrep -r D,R,S,T -x sftbench >/dev/null && return 1; done
  return 0
}

kills() { # NAME WHAT HOST COMMAND...: in the middle of a cell; then the host comes back
  local name=$1 host=$3 status=0
  echo "$2"
  trains "$name" 32 10000 --set stop_after_seconds=45 &
  local sweep=$!
  wait_until 120 steps_began "$name"
  "${@:4}" || true
  wait_until 120 grep -q 'was lost' "$work/$name.out"
  wait_until 120 no_rank_is_left
  mend
  on "$host" "$RAY" stop --force >/dev/null 2>&1 || true
  worker_node "$host"
  wait $sweep || status=$?
  grep -E 'lost|is submitted|interrupted|waiting|settled|ended' "$work/$name.out" | command cut -c1-160 | sed 's/^/  /'
  [ $status -eq 0 ] || { cat "$work/$name.out"; return 1; }
  settled "$name" 1
}

ray_up() {
  if [ -z "${RAY:-}" ]; then
    python3 -m venv "$work/venv" >/dev/null 2>&1 || skip "python3 makes no virtual environment (Debian: python3-venv)"
    "$work/venv/bin/pip" install -q 'ray[default]' >"$work/pip.log" 2>&1 || skip "ray cannot be installed: $(tail -n 1 "$work/pip.log")"
    RAY=$work/venv/bin/ray
  fi
  [ ! -d "$work/ray" ] || return 0
  PATH=$(dirname "$RAY"):$PATH
  wire switch ip address add $head/24 dev bridge
  mkdir "$work/ray"
  local host
  for host in switch n1 n2; do on $host mount -t tmpfs ray "$work/ray"; done # each has a disk of its own
  ray_node switch --head --port 26379 --dashboard-port 28265 --num-cpus 0 --temp-dir "$work/ray"
  worker_node n1
  worker_node n2
  echo "$("$RAY" --version): a head and two nodes with 4 GPUs each, none of which is real"
}

cells() {
  echo "two cells of four ranks on two nodes"
  trains cells 32,64 2 || { cat "$work/cells.out"; return 1; }
  settled cells 2
  trains cells 32,64 2
  grep -q 'there is nothing to start' "$work/cells.out"
}

gpus() {
  echo "simulated cells of GPUs, one with RoCE"
  sweep gpus "${simulated[@]}" --set number_gpus=8 --set number_nodes=2 --set enable_roce=true,false ||
    { cat "$work/gpus.out"; return 1; }
  settled gpus 2
}

stopped() {
  echo "the command is asked to end"
  trains stopped 32 10000 &
  local sweep=$! status=0
  wait_until 120 steps_began stopped
  on switch pkill -TERM -x sftbench
  wait $sweep || status=$?
  [ $status -eq 130 ] || { echo "status $status"; cat "$work/stopped.out"; return 1; }
  wait_until 15 no_rank_is_left
  [ -z "$(find "$work/stopped" -name '*.json')" ] || { echo "a result was written"; return 1; }
}

lacking() {
  local sweep
  echo "nodes that the cluster lacks"
  threads=16 trains lacking 32 2 &
  sweep=$!
  wait_until 60 grep 'waiting for 2 nodes with 32 CPU, 1 full-worker each: 0 of the' "$work/lacking.out"
  on switch pkill -TERM -x sftbench
  wait $sweep || true
  sweep one "${simulated[@]}" --set number_gpus=8 --set number_nodes=1 &
  sweep=$!
  wait_until 60 grep '/1: Job has not started yet' "$work/one.out"
  on switch pkill -TERM -x sftbench
  wait $sweep || true
}

queue_is_empty() { [ -z "$(on n1 squeue -h 2>/dev/null)" ]; }

slurm() {
  echo "slurm: two cells, and all of n2 is killed in the middle of the first"
  install_launchers
  SLURM_TIMEOUT=10 slurm_up
  chmod -R go+rX "$work"
  cells_of 32,64 10000
  on n1 "$program" sweep "${words[@]}" --set stop_after_seconds=30 --on slurm --submit --workers 1 -o "$work/slurm"
  wait_until 120 steps_began slurm
  on n2 bash -c 'kill -KILL -1' || true
  wait_until 60 no_rank_is_left
  wait_until 120 slurm_says n2 down
  background n2 slurmd -D -N n2
  wait_until 60 slurm_says n2 idle
  # Slurm waits two minutes before it starts a job again, for its credentials to expire.
  wait_until 400 queue_is_empty
  command cut -c1-160 "$work"/slurm/slurm/*.log | sed 's/^/  /'
  settled slurm 2
}

slurm_says() { on n1 sinfo -h -n "$1" -o %T | grep -q "$2"; }

cp -r "$here/../../datasets/tokenizer" "$work/model"
python3 "$here/jobs.py" make "$program" "$work"
python3 - "$here/../reference/training/llama/config.json" >"$work/model/config.json" <<'PYTHON'
import json, sys
print(json.dumps({**json.load(open(sys.argv[1])), "vocab_size": 8192, "hidden_size": 64, "head_dim": 16}))
PYTHON
[ $# -gt 0 ] || set -- cells gpus raylet node link stopped lacking slurm
for case; do
  [ "$case" = slurm ] || ray_up
  case $case in
    cells | gpus | stopped | lacking | slurm) $case ;;
    raylet) kills raylet "the raylet of n2 is killed" n2 on n2 pkill -KILL -x raylet ;;
    node) kills node "all of n2 is killed" n2 on n2 bash -c 'kill -KILL -1' ;;
    link) kills link "the link of n1 is cut" n1 cut ;;
    *) echo "unknown case $case" && exit 2 ;;
  esac
done
echo "several nodes on engines: all as it should be"
