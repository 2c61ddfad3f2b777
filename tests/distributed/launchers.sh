# shellcheck shell=bash
# The launchers of clusters on the two hosts of hosts.sh, as real as they come; sourced after it.
#
#   install_launchers          Debian's packages of them, where they are missing
#   slurm_up                   munge, slurmctld and a slurmd on each host; SLURM_GPUS: so many made up ones on each;
#                              SLURM_TIMEOUT: seconds after which a silent slurmd is down
#   by_slurm RANKS_PER_NODE CMD...      srun
#   by_mpi RANKS_PER_NODE CMD...        mpirun, over ssh
#   by_torchrun RANKS_PER_NODE CMD...   torchrun --no-python of $PYTHON, once on each host
#
# Each runs CMD as 2 x RANKS_PER_NODE ranks and ends with its status. What these programs say of
# themselves stands in $hosts_folder/*.log.

install_launchers() {
  local package missing=()
  for package in openmpi-bin openssh-server openssh-client slurmctld slurmd slurm-client munge; do
    dpkg-query -W -f='${Status}' $package 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  echo "Installing ${missing[*]}"
  # No daemon of these packages starts here: the test starts its own.
  printf '#!/bin/sh\nexit 101\n' >"$hosts_folder/policy" && chmod +x "$hosts_folder/policy"
  unshare --mount sh -c '
    : >/usr/sbin/policy-rc.d 2>/dev/null; mount --bind "$0" /usr/sbin/policy-rc.d
    export DEBIAN_FRONTEND=noninteractive
    { apt-get install -y -qq --no-install-recommends "$@" || { apt-get update -qq &&
      apt-get install -y -qq --no-install-recommends "$@"; }; } >/dev/null' \
    "$hosts_folder/policy" "${missing[@]}" || skip "these packages cannot be installed: ${missing[*]}"
  rm -f /usr/sbin/policy-rc.d
}

background() { # HOST CMD...: until the hosts go down
  local host=$1
  shift
  on "$host" "$@" >>"$hosts_folder/$(basename "$1").$host.log" 2>&1 &
  disown
}

slurm_up() {
  local folder=$hosts_folder host try
  [ ! -f "$folder/slurm.conf" ] || return 0
  chmod 755 "$folder"
  mkdir "$folder/munge" "$folder/state" "$folder/spool.n1" "$folder/spool.n2"
  head -c 1024 /dev/urandom >"$folder/munge/key"
  chmod 700 "$folder/munge" && chmod 600 "$folder/munge/key" && chown -R munge: "$folder/munge"
  mkdir -m 1777 "$folder/sockets"
  cat >"$folder/slurm.conf" <<CONF
ClusterName=pair
SlurmctldHost=n1
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$folder/sockets/munge
CredType=cred/munge
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool.%n
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
ReturnToService=2
SlurmdTimeout=${SLURM_TIMEOUT:-300}
${SLURM_GPUS:+GresTypes=gpu}
NodeName=n[1-2] CPUs=4 RealMemory=500 ${SLURM_GPUS:+Gres=gpu:$SLURM_GPUS} State=UNKNOWN
PartitionName=all Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
CONF
  if [ -n "${SLURM_GPUS:-}" ]; then
    for try in $(seq 0 $((SLURM_GPUS - 1))); do : >"$folder/gpu$try"; done
    echo "Name=gpu File=$folder/gpu[0-$((SLURM_GPUS - 1))]" >"$folder/gres.conf"
  fi
  export SLURM_CONF=$folder/slurm.conf
  background n1 setpriv --reuid munge --regid munge --clear-groups \
    munged --foreground --force --key-file="$folder/munge/key" --socket="$folder/sockets/munge" \
    --pid-file="$folder/munge/pid" --log-file="$folder/munge/log" --seed-file="$folder/munge/seed"
  for try in {1..100}; do [ -S "$folder/sockets/munge" ] && break || sleep 0.05; done
  background n1 slurmctld -D
  for host in n1 n2; do background $host slurmd -D -N $host; done
  for try in {1..100}; do
    on n1 sinfo -h -o '%T %D' 2>/dev/null | grep -q 'idle 2' && return
    sleep 0.1
  done
  tail -n 20 "$folder"/slurm*.log
  echo "Slurm does not come up"
  return 1
}

by_slurm() {
  local ranks=$1
  shift
  on n1 srun --quiet --nodes 2 --ntasks-per-node "$ranks" --kill-on-bad-exit=1 "$@"
}

ssh_up() {
  local folder=$hosts_folder host try
  ssh_options="-q -i $folder/key -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
  [ ! -f "$folder/key" ] || return 0
  ssh-keygen -q -t ed25519 -N '' -f "$folder/key"
  chmod 700 "$folder"
  cat >"$folder/sshd_config" <<CONF
HostKey $folder/key
AuthorizedKeysFile $folder/key.pub
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
PidFile none
CONF
  mkdir -p /run/sshd
  for host in n1 n2; do background $host /usr/sbin/sshd -D -e -f "$folder/sshd_config"; done
  for try in {1..100}; do
    on n1 bash -c ': </dev/tcp/n2/22' 2>/dev/null && break || sleep 0.05
  done
}

by_mpi() {
  local ranks=$1 folder=$hosts_folder variable pass=()
  shift
  ssh_up
  printf 'n1 slots=%d\nn2 slots=%d\n' "$ranks" "$ranks" >"$folder/hostfile"
  for variable in OMP_NUM_THREADS OMP_WAIT_POLICY SFTBENCH_ENGINE; do
    [ -z "${!variable:-}" ] || pass+=(-x "$variable")
  done
  on n1 mpirun --allow-run-as-root --hostfile "$folder/hostfile" -np $((2 * ranks)) \
    --map-by "ppr:$ranks:node:OVERSUBSCRIBE" --bind-to none --mca btl_base_warn_component_unused 0 \
    --mca plm_rsh_args "$ssh_options" \
    "${pass[@]}" "$@"
}

torchrun_on() { # HOST NODE RANKS CMD...
  local host=$1 node=$2 ranks=$3 status=0
  shift 3
  on "$host" "$PYTHON" -m torch.distributed.run --nnodes 2 --node-rank "$node" \
    --nproc-per-node "$ranks" --master-addr n1 --master-port 29400 --no-python "$@" \
    2>"$hosts_folder/torchrun.$host.log" || status=$?
  [ $status -eq 0 ] || cat "$hosts_folder/torchrun.$host.log" >&2
  return $status
}

by_torchrun() {
  local status=0
  torchrun_on n2 1 "$@" &
  torchrun_on n1 0 "$@" || status=$?
  wait $! || status=$?
  return $status
}
