#!/usr/bin/env bash
# One rank for each slot of a hostfile: N slots on each host, rank 0 on the first host.
# usage: experiments/launch/openmpi.sh HOSTFILE [sftbench run's arguments...]
# SFTBENCH_JOB_SECRET is passed on where it is set; without it mpirun's own random key is the job's secret.
# MASTER_ADDR is needed where mpirun itself runs elsewhere than on the first host.
set -euo pipefail
hostfile=${1:?usage: openmpi.sh HOSTFILE [arguments of sftbench run...]}
shift
[ $# -gt 0 ] || set -- experiments/launch/two_nodes.yaml --entity 0
first=$(awk '!/^#/ && NF { print $1; exit }' "$hostfile")
slots=$(awk '!/^#/ && NF { sub(/.*slots=/, ""); print $1; exit }' "$hostfile")
exec mpirun --hostfile "$hostfile" --map-by "ppr:$slots:node" --bind-to none \
  -x MASTER_ADDR="$first" ${SFTBENCH_JOB_SECRET:+-x SFTBENCH_JOB_SECRET} -x PATH ${LD_LIBRARY_PATH:+-x LD_LIBRARY_PATH} sftbench run "$@" --no-progress
