#!/usr/bin/env bash
# Predicts the small tables of this folder, of programs that have no profile in config/stacks.yaml, with those that
# are nearest. usage: small_tables.sh SFTBENCH OUTPUT
set -euo pipefail
sftbench=$(realpath "$1") output=$(realpath -m "$2")
cd "$(dirname "$0")"
mkdir -p "$output"
config=$output/models.yaml
bash model_map.sh >"$config"
for stack in sftbench fms-hf-tuning; do
  "$sftbench" import automodel.csv --as csv --stack "$stack" --config "$config" -o "$output/automodel-$stack" \
    --set experiment=lora --set torch_dtype=bfloat16 --set gpu_model=NVIDIA-H100-80GB-HBM3 \
    --set gradient_checkpointing=false --set r=16 --set target_modules='["all-linear"]' \
    --map model_name=model --map model_max_length=length --map number_gpus=gpus --map batch_size=batch \
    --map gradient_accumulation_steps=accumulation --map lora_dropout=dropout --map tokens_per_second=rate
  "$sftbench" import litgpt.csv --as csv --stack "$stack" --config "$config" -o "$output/litgpt-$stack" \
    --set experiment=lora --set torch_dtype=bfloat16 --set gpu_model=NVIDIA-A100-SXM4-40GB \
    --set gradient_checkpointing=false --set r=8 --set target_modules='["q_proj", "v_proj"]' \
    --set model_max_length=1304 --map model_name=model --map number_gpus=gpus --map batch_size=batch \
    --map gradient_accumulation_steps=accumulation --map allocated_bytes=bytes --map is_valid=valid
done
for table in automodel litgpt; do
  for stack in sftbench fms-hf-tuning; do
    echo "$table, predicted as $stack"
    "$sftbench" predict --score "$output/$table-$stack" --config "$config" --rows
  done
done
