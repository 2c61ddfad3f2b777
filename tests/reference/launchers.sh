#!/usr/bin/env bash
# Writes launchers/*.env: the variables that real launchers leave to each of four ranks on two hosts, and
# Slurm to a batch script. Only what says who, where and how many is kept, and nothing of this machine's folders.
# As root; PYTHON names an interpreter with torch. usage: tests/reference/launchers.sh
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../distributed/hosts.sh"
. "$here/../distributed/launchers.sh"
PYTHON=${PYTHON:?an interpreter with torch}

hosts_up
install_launchers
slurm_up
cat >"$hosts_folder/record" <<RECORD
#!/bin/sh
rank=\${RANK:-\${OMPI_COMM_WORLD_RANK:-\$SLURM_PROCID}}
env | grep -E '^(OMPI_COMM_WORLD|OMPI_MCA_(orte_hnp_uri|ess_base_jobid)|PMIX_(NAMESPACE|RANK)|PMI_|RANK|WORLD_SIZE|LOCAL_|GROUP_|MASTER_|TORCHELASTIC_(RUN_ID|RESTART_COUNT|USE_AGENT_STORE)|SLURM_(JOB_ID|STEP_ID|STEPID|PROCID|LOCALID|NODEID|NTASKS|NPROCS|NNODES|STEP_NUM_|STEP_TASKS|STEP_NODELIST|JOB_NODELIST|TASKS_PER_NODE))' |
  LC_ALL=C sort >"$here/launchers/\$1.\$rank.env"
RECORD
chmod +x "$hosts_folder/record"
mkdir -p "$here/launchers"

by_slurm 2 "$hosts_folder/record" slurm
by_mpi 2 "$hosts_folder/record" openmpi
by_torchrun 2 "$hosts_folder/record" torchrun
printf '#!/bin/sh\n%s slurm_batch\n' "$hosts_folder/record" >"$hosts_folder/batch"
on n1 sbatch --quiet --wait --nodes 2 --ntasks 4 --output /dev/null "$hosts_folder/batch"
ls "$here/launchers"
