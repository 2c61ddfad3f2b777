#!/usr/bin/env bash
# From nothing to measured properties: installs, builds, and measures one full fine-tuning run of
# SmolLM2-135M (random weights, generated text) on this machine's CPU.
set -euo pipefail
cd "$(dirname "$0")/.."

bash experiments/setup.sh sftbench
exec build/release/bin/sftbench run experiments/spaces/quickstart.yaml "$@"
