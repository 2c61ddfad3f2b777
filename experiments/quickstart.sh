#!/usr/bin/env bash
# From nothing to measured properties: installs, builds, and measures one full fine-tuning run of SmolLM2-135M (random
# weights, generated text): on an NVIDIA GPU where this machine has one, else on its CPU.
# usage: experiments/quickstart.sh [--cpu] [options of sftbench run]
set -euo pipefail
cd "$(dirname "$0")/.."

setup=()
if [ "${1:-}" = --cpu ]; then
  setup=(--cpu)
  shift
fi
bash experiments/setup.sh "${setup[@]}" sftbench
on=()
if [ ${#setup[@]} -eq 0 ] && [ -e /dev/nvidiactl ]; then
  gpu=$(nvidia-smi --id=0 --query-gpu=name --format=csv,noheader | tr ' ' '-')
  on=(--set number_gpus=1 --set "gpu_model=$gpu")
fi
exec build/release/bin/sftbench run experiments/spaces/quickstart.yaml "${on[@]}" "$@"
