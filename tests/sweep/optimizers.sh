#!/usr/bin/env bash
# Every value of the property `optim` through the program: one sweep over the experiment's own list, three real steps
# each on a tiny model, in float32 and bfloat16. What cannot be done has to say so; all else has to train, and to keep
# states of the size that its format has. usage: tests/sweep/optimizers.sh SFTBENCH
set -euo pipefail
program=$(realpath "${1:?usage: optimizers.sh SFTBENCH}")
python=${PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
experiment=finetune_full_benchmark-v1.0.0

# Matrices of 4096 elements and more, which have 8-bit states, and embedding and norms, which have not.
mkdir -p "$work/model" "$work/data"
cat >"$work/model/config.json" <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "intermediate_size": 128,
 "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 512,
 "max_position_embeddings": 128, "rms_norm_eps": 1e-06, "tie_word_embeddings": true, "hidden_act": "silu"}
JSON
# The same entry again and again: what changes the loss is the optimizer.
for _ in $(seq 8); do
  echo '{"output": "### Input:\n some words \n\n### Response: words of the day"}'
done >"$work/data/news-tokens-16384plus-entries-4096.jsonl"

values=$("$program" experiments $experiment --format json | "$python" -c '
import json, sys
properties = json.load(sys.stdin)["properties"]
print(json.dumps(next(p for p in properties if p["identifier"] == "optim")["values"]))')
cat >"$work/space.yaml" <<YAML
weights: random
experiments:
- experimentIdentifier: $experiment
  actuatorIdentifier: SFTTrainer
  parameterization:
  - {property: {identifier: max_steps}, value: 3}
  - {property: {identifier: gradient_accumulation_steps}, value: 1}
entitySpace:
- {identifier: model_name, propertyDomain: {values: [tiny]}}
- {identifier: number_gpus, propertyDomain: {values: [0]}}
- {identifier: model_max_length, propertyDomain: {values: [64]}}
- {identifier: batch_size, propertyDomain: {values: [2]}}
- {identifier: torch_dtype, propertyDomain: {values: [float32, bfloat16]}}
- {identifier: optim, propertyDomain: {values: $values}}
actuatorConfiguration:
  actuatorIdentifier: SFTTrainer
  parameters: {data_directory: $work/data, model_map: {tiny: $work/model}}
YAML

status=0
"$program" sweep "$work/space.yaml" -o "$work/results" --jobs auto --max-quick-failures 0 --no-progress \
  2>"$work/log" || status=$?
if [[ $status != 4 ]]; then
  cat "$work/log"
  echo "exit status $status, not 4, though two values of optim cannot be done"
  exit 1
fi
"$python" "$(dirname "$0")/optimizers.py" "$work/results/$experiment" "$values"
