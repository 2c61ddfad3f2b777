#!/usr/bin/env bash
# Prints an actuator configuration whose model_map names the models of this folder. usage: model_map.sh >CONFIG
set -euo pipefail
cd "$(dirname "$0")"
printf 'actuatorIdentifier: SFTTrainer\nparameters:\n  model_map:\n'
for model in models/*/; do
  printf '    %s: %s\n' "$(basename "$model")" "$PWD/${model%/}"
done
