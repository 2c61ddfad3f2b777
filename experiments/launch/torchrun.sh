#!/usr/bin/env bash
# On each node once, at about the same time, with the number of that node: 0 on the first, whose name is FIRST_HOST.
# usage: experiments/launch/torchrun.sh NODES NODE FIRST_HOST GPUS_PER_NODE [sftbench run's arguments...]
# Set SFTBENCH_JOB_SECRET_FILE to a file of mode 0600 that all nodes see, or SFTBENCH_JOB_SECRET to the same text on each.
# torchrun's agent listens at port 29400 of the first node, the ranks meet at 29401.
set -euo pipefail
nodes=${1:?usage: torchrun.sh NODES NODE FIRST_HOST GPUS_PER_NODE [arguments of sftbench run...]}
node=${2:?} first=${3:?} gpus=${4:?}
shift 4
[ $# -gt 0 ] || set -- experiments/launch/two_nodes.yaml --entity 0
exec torchrun --nnodes "$nodes" --node-rank "$node" --nproc-per-node "$gpus" --master-addr "$first" \
  --master-port 29400 --max-restarts 0 --no-python sftbench run "$@" --no-progress
