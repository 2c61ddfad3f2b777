#!/usr/bin/env bash
# Trains on two hosts: network namespaces of this machine (hosts.sh), two ranks on each, under FULL_SHARD and
# HYBRID_SHARD, through Open MPI, Slurm and torchrun as they are (launchers.sh). Losses equal one process's, what
# HYBRID_SHARD sends from host to host is what the program counted, and when a rank is killed or the link is cut all ranks
# end in time and rank 0 tells why.
# As root; exit 77, with the reason, where that cannot be done.
#
# usage: tests/distributed/two_hosts.sh SFTBENCH [mpi|slurm|torchrun|examples|own|sweeps|killed|cut|overlap|rows]...
#   PYTHON  an interpreter with torch, for torchrun; without one that launcher is left out
#   ROW_LENGTH  positions of the row of rows; default: 32768
#   TRACES  where timelines of overlap and rows are to be written, the beginning of their names
set -euo pipefail
program=$(realpath "${1:?usage: two_hosts.sh SFTBENCH [mpi|slurm|torchrun|examples|own|sweeps|killed|cut|overlap|rows]...}")
shift
here=$(cd "$(dirname "$0")" && pwd)
. "$here/hosts.sh"
. "$here/launchers.sh"
# Ranks that share two cores must not spin while they wait.
export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive

sftbench_run() { # JOB RESULTS: the words
  echo "$program run --job $work/$1.json -o $work/$2 --format json --no-progress --log-level warn"
}

wait_for() { # PROCESS...: true when all of them have ended well
  local process status=0
  for process; do wait "$process" || status=$?; done
  return $status
}

trains_through() { # LAUNCHER: each strategy, as often with the same losses
  local launcher=$1 strategy results sent1 sent2
  for strategy in FULL_SHARD HYBRID_SHARD; do
    echo "$launcher, $strategy"
    results=$launcher.$strategy
    sent1=$(bytes_sent n1) sent2=$(bytes_sent n2)
    # shellcheck disable=SC2046
    by_$launcher 2 $(sftbench_run $strategy "$results") >"$work/$results.json"
    sent1=$(($(bytes_sent n1) - sent1)) sent2=$(($(bytes_sent n2) - sent2))
    python3 "$here/jobs.py" losses "$work/one" "$work/$results" $launcher
    # What goes to the standard output is one measurement, rank 0's.
    python3 "$here/jobs.py" losses "$work/$results.json" "$work/$results" $launcher >"$work/twice"
    [ $strategy = FULL_SHARD ] || python3 "$here/jobs.py" bytes "$work/$results" $sent1 $sent2
  done
}

# experiments/launch as it stands, with this test's job in place of its own.
examples_work() {
  local examples=$here/../../experiments/launch run host both
  run=(--job "$work/HYBRID_SHARD.json")
  mkdir "$work/bin" && ln -s "$program" "$work/bin/sftbench"
  export PATH=$work/bin:$PATH

  echo "experiments/launch/openmpi.sh"
  ssh_up
  printf 'n1 slots=2\nn2 slots=2\n' >"$work/hostfile"
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 \
    OMPI_MCA_plm_rsh_args="$ssh_options" \
    on n1 "$examples/openmpi.sh" "$work/hostfile" "${run[@]}" -o "$work/example.mpi" >"$work/example.mpi.txt"
  python3 "$here/jobs.py" losses "$work/one" "$work/example.mpi" mpi

  if [ -x "$(command -v "${PYTHON:-}")" ]; then
    echo "experiments/launch/torchrun.sh"
    both=()
    for host in n1 n2; do
      PATH=$(dirname "$PYTHON"):$PATH on $host "$examples/torchrun.sh" 2 $((${host#n} - 1)) n1 2 "${run[@]}" \
        -o "$work/example.torchrun" >"$work/example.torchrun.$host" 2>&1 &
      both+=($!)
    done
    wait_for "${both[@]}" || { cat "$work"/example.torchrun.n?; return 1; }
    python3 "$here/jobs.py" losses "$work/one" "$work/example.torchrun" torchrun
  else
    echo "SKIPPED experiments/launch/torchrun.sh: PYTHON names no interpreter with torch"
  fi

  echo "experiments/launch/slurm.sbatch"
  slurm_up
  on n1 sbatch --quiet --wait --ntasks-per-node 2 --gpus-per-node 0 --cpus-per-task 1 --chdir "$work" \
    --output "$work/example.slurm.txt" "$examples/slurm.sbatch" "${run[@]}" -o "$work/example.slurm" ||
    { cat "$work/example.slurm.txt"; return 1; }
  python3 "$here/jobs.py" losses "$work/one" "$work/example.slurm" slurm

  echo "experiments/launch/jobset.yaml, the command of its pods"
  awk '/- \|$/ { within = 1; next } /ports:$/ { within = 0 } within' "$examples/jobset.yaml" >"$work/pod"
  sed -i "s|sftbench run .*|sftbench run ${run[*]} -o $work/example.pods --no-progress \&|" "$work/pod"
  both=()
  for host in n1 n2; do
    on $host env GPUS_PER_NODE=2 NODES=2 MASTER_ADDR=n1 MASTER_PORT=29500 KUBERNETES_SERVICE_HOST=10.0.0.1 \
      JOB_COMPLETION_INDEX=$((${host#n} - 1)) bash "$work/pod" >"$work/example.pods.$host.txt" &
    both+=($!)
  done
  wait_for "${both[@]}"
  python3 "$here/jobs.py" losses "$work/one" "$work/example.pods" kubernetes
  head -n 40 "$work/example.mpi.txt" "$work/example.slurm.txt" >"${EXAMPLES_OUTPUT:-/dev/null}"
}

# One command on n1 that starts the ranks of both hosts itself.
own_words() { # WORD...: into $own, with what ssh and mpirun take to let root in
  own=(env "SFTBENCH_SSH=ssh $ssh_options" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1 "OMPI_MCA_plm_rsh_args=$ssh_options" "$@")
}

own_run() { # JOB RESULTS OPTIONS...
  local job=$1 results=$2
  shift 2
  # shellcheck disable=SC2046
  own_words $(sftbench_run "$job" "$results") "$@"
}

# Two cells, each of them two ranks on either host.
own_sweep() { # RESULTS OPTIONS...
  local results=$1
  shift
  own_words "$program" sweep --experiment finetune_full_benchmark-v1.0.0 --config "$work/config.yaml" --weights random \
    -o "$work/$results" --no-progress --ranks 4 --threads 1 --set number_gpus=0 --set model_name=smollm2-135m \
    --set model_max_length=32,64 --set batch_size=4 --set max_steps=2 --set distributed_backend=FSDP "$@"
}

fails_saying() { # SECONDS TEXT: "${own[@]}" on n1
  local begin_s status=0
  begin_s=$(date +%s)
  on n1 "${own[@]}" >"$work/own.out" 2>"$work/own.err" || status=$?
  [ $status -ne 0 ] && grep -q "$2" "$work/own.err" || { echo "status $status"; cat "$work/own.err"; return 1; }
  [ $(($(date +%s) - begin_s)) -le "$1" ] || { echo "that took $(($(date +%s) - begin_s)) s"; return 1; }
  echo "  $(grep -m 1 "$2" "$work/own.err")"
}

no_rank_is_left() {
  local try host left
  for try in {1..150}; do
    left=
    for host in n1 n2; do on $host pgrep -r D,R,S,T -x sftbench >/dev/null && left=$host; done
    [ -n "$left" ] || return 0
    sleep 0.1
  done
  echo "a rank is left on $left"
  return 1
}

starts_ranks_itself() {
  local strategy try launcher
  local -a hosts allocation
  ssh_up
  slurm_up
  for strategy in FULL_SHARD HYBRID_SHARD; do
    echo "run --hosts, over ssh, $strategy"
    own_run $strategy own.ssh.$strategy --hosts n1,n2
    on n1 "${own[@]}" >"$work/own.json"
    python3 "$here/jobs.py" losses "$work/one" "$work/own.ssh.$strategy" none
    echo "run --launcher srun, in an allocation, $strategy"
    own_run $strategy own.srun.$strategy --launcher srun
    on n1 salloc --quiet --nodes 2 --ntasks-per-node 2 "${own[@]}" >"$work/own.json"
    python3 "$here/jobs.py" losses "$work/one" "$work/own.srun.$strategy" slurm
    echo "run --launcher mpirun, $strategy"
    own_run $strategy own.mpi.$strategy --launcher mpirun --hosts n1,n2
    on n1 "${own[@]}" >"$work/own.json"
    python3 "$here/jobs.py" losses "$work/one" "$work/own.mpi.$strategy" mpi
  done

  echo "run --hosts: what goes wrong"
  own_run FULL_SHARD own.none --hosts n1,nowhere
  fails_saying 30 'nowhere cannot be reached by ssh'
  cut
  own_run FULL_SHARD own.none --hosts n1,n2
  fails_saying 40 'n2 cannot be reached by ssh'
  mend
  on n1 cp "$program" /dev/shm/sftbench # which is n1's own
  own=(env "SFTBENCH_HOME=$(dirname "$program")/../share/sftbench" "${own[@]/$program//dev/shm/sftbench}")
  fails_saying 20 'the program /dev/shm/sftbench is missing on n2'
  [ -z "$(find "$work/own.none" -name '*.json' 2>/dev/null)" ] || { echo "an outcome was written"; return 1; }

  echo "run --hosts: a rank on n2 is killed"
  own_run endless own.killed --hosts n1,n2
  on n1 "${own[@]}" >"$work/own.out" 2>"$work/own.err" &
  local running=$! status=0
  for try in {1..300}; do grep -qs ' step: 3 ' "$work"/own.killed/*/*.log && break || sleep 0.1; done
  on n2 pkill -KILL -n -x sftbench
  wait $running || status=$?
  [ $status -eq 4 ] && grep -q 'was ended by signal 9' "$work/own.err" || { cat "$work/own.err"; return 1; }
  python3 "$here/jobs.py" failed "$work/own.killed" KILLED 2,3

  for launcher in ssh srun mpirun; do
    echo "run --launcher $launcher: the command is killed"
    hosts=(--hosts "n1,n2") allocation=()
    [ $launcher != srun ] || hosts=() allocation=(salloc --quiet --nodes 2 --ntasks-per-node 2)
    own_run endless own.gone.$launcher --launcher $launcher "${hosts[@]}"
    on n1 "${allocation[@]}" "${own[@]}" >"$work/own.out" 2>"$work/own.err" &
    running=$!
    for try in {1..300}; do grep -qs ' step: 3 ' "$work"/own.gone.$launcher/*/*.log && break || sleep 0.1; done
    # One that was killed before is still listed, because nobody here reaps it.
    on n1 pkill -KILL -o -r D,R,S -x sftbench
    wait $running || true
    no_rank_is_left
  done
}

# A space of cells that each take both hosts, from one command.
sweeps_itself() {
  ssh_up
  slurm_up
  echo "sweep --hosts, over ssh"
  own_sweep sweep.ssh --hosts n1,n2
  on n1 "${own[@]}" >"$work/own.out"
  python3 "$here/jobs.py" cells "$work/sweep.ssh" 2 none
  echo "sweep --launcher srun, in an allocation"
  own_sweep sweep.srun --launcher srun
  on n1 salloc --quiet --nodes 2 --ntasks-per-node 2 "${own[@]}" >"$work/own.out"
  python3 "$here/jobs.py" cells "$work/sweep.srun" 2 slurm
  echo "sweep --launcher mpirun"
  own_sweep sweep.mpi --launcher mpirun --hosts n1,n2
  on n1 "${own[@]}" >"$work/own.out"
  python3 "$here/jobs.py" cells "$work/sweep.mpi" 2 mpi
}

# Ranks started by hand: no launcher that would end the others when one has ended.
start_by_hand() { # JOB RESULTS
  local rank host
  rank_processes=()
  for rank in 0 1 2 3; do
    host=n$((rank / 2 + 1))
    # shellcheck disable=SC2046
    on $host env RANK=$rank WORLD_SIZE=4 LOCAL_RANK=$((rank % 2)) LOCAL_WORLD_SIZE=2 MASTER_ADDR=n1 \
      MASTER_PORT=29500 $(sftbench_run "$1" "$2") >"$work/rank$rank.out" 2>"$work/rank$rank.err" &
    rank_processes+=($!)
  done
}

# A launcher that ends all ranks when one has ended does not keep rank 0 from telling why.
tells_of_a_killed_rank() { # LAUNCHER
  echo "$1: a rank on n2 is killed"
  local results=killed.$1 launched begin_s try status=0
  # shellcheck disable=SC2046
  by_$1 2 $(sftbench_run endless "$results") >"$work/$results.out" 2>"$work/$results.err" &
  launched=$!
  for try in {1..300}; do
    grep -qs ' step: 3 ' "$work/$results"/*/*.log && break
    sleep 0.1
  done
  begin_s=$(date +%s)
  on n2 pkill -KILL -n -x sftbench
  wait $launched || status=$?
  [ $status -ne 0 ] || { echo "$1 says that all is well"; return 1; }
  [ $(($(date +%s) - begin_s)) -le 15 ] || { echo "that took $(($(date +%s) - begin_s)) s"; return 1; }
  python3 "$here/jobs.py" failed "$work/$results" KILLED 2,3 || { cat "$work/$results.err"; return 1; }
}

survives_a_cut_link() {
  echo "the link is cut for longer than the deadline of 5 s"
  local try begin_s rank status
  start_by_hand endless cut
  for try in {1..300}; do
    grep -qs ' step: 3 ' "$work"/cut/*/*.log && break
    sleep 0.1
  done
  cut
  begin_s=$(date +%s)
  for rank in 0 1 2 3; do
    status=0
    wait "${rank_processes[$rank]}" || status=$?
    echo "  rank $rank ended after $(($(date +%s) - begin_s)) s with status $status"
    [ $status -eq 4 ] || { cat "$work/rank$rank.err"; return 1; }
  done
  [ $(($(date +%s) - begin_s)) -le 15 ] || { echo "that is more than the deadline + 10 s"; return 1; }
  python3 "$here/jobs.py" failed "$work/cut" NCCL 2,3
  mend
  echo "the link is mended: the next run works"
  start_by_hand FULL_SHARD mended
  for rank in 0 1 2 3; do wait "${rank_processes[$rank]}" || { cat "$work/rank$rank.err"; return 1; }; done
  python3 "$here/jobs.py" losses "$work/one" "$work/mended" none
}

# On its own (about 9 minutes), for its times: with other work on the cores they mean nothing.
overlaps() { # JOB TIMES...: communication on the link, in units of computing; 0, the first: all that it can
  local job=$1 times both host link mbit
  shift
  for times; do
    link=link$times mbit=0
    [ $times = 0 ] || mbit=$(python3 "$here/jobs.py" rate "$work/$job.link0" $times)
    slow_link "$mbit"
    both=()
    for host in n1 n2; do
      # shellcheck disable=SC2046
      on $host env RANK=$((${host#n} - 1)) WORLD_SIZE=2 MASTER_ADDR=n1 MASTER_PORT=29500 \
        $(sftbench_run $job "$job.$link") ${TRACES:+--trace "$TRACES.$link.json"} >"$work/$job.$link.$host" &
      both+=($!)
    done
    wait_for "${both[@]}"
    [ $times = 0 ] || python3 "$here/jobs.py" overlap "$work/$job.link0" "$work/$job.$link" "$mbit"
  done
  slow_link 0
}

hosts_up
install_launchers
work=$hosts_folder/work
mkdir "$work"
python3 "$here/jobs.py" make "$program" "$work"
# shellcheck disable=SC2091
$(sftbench_run one one) >/dev/null

[ $# -gt 0 ] || set -- mpi slurm torchrun examples own sweeps killed cut
for case; do
  case $case in
    mpi) trains_through mpi ;;
    slurm)
      slurm_up
      trains_through slurm ;;
    torchrun)
      if [ -x "$(command -v "${PYTHON:-}")" ]; then
        trains_through torchrun
      else
        echo "SKIPPED torchrun: PYTHON names no interpreter with torch"
      fi ;;
    examples) examples_work ;;
    own) starts_ranks_itself ;;
    sweeps) sweeps_itself ;;
    killed)
      tells_of_a_killed_rank mpi
      slurm_up
      tells_of_a_killed_rank slurm ;;
    cut) survives_a_cut_link ;;
    overlap) overlaps overlap 0 0.67 1 1.5 ;;
    rows) overlaps rows 0 0.1 0.3 ;; # of which each host has a part: as overlap on its own, about 2 minutes
    *) echo "unknown case $case" && exit 2 ;;
  esac
done
# A process that has ended counts for none: the first process of these hosts reaps no orphans.
on n1 pgrep -r D,R,S,T -x sftbench && { echo "a rank is left on n1"; exit 1; }
on n2 pgrep -r D,R,S,T -x sftbench && { echo "a rank is left on n2"; exit 1; }
echo "two hosts: all as it should be"
