#!/usr/bin/env bash
# Makes evidence of the tables in this folder. usage: import.sh SFTBENCH OUTPUT
set -euo pipefail
sftbench=$(realpath "$1") output=$(realpath -m "$2")
cd "$(dirname "$0")"
mkdir -p "$output"
config=$output/models.yaml
bash model_map.sh >"$config"
for table in fms-acceleration-*.csv; do
  "$sftbench" import "$table" --as fms-acceleration --config "$config" -o "$output"
done
"$sftbench" import llm-foundry.csv --as csv --stack llm-foundry --config "$config" -o "$output" \
  --set experiment=full --set torch_dtype=float32 --set bf16=true --set distributed_backend=FSDP \
  --map model_name=model --map model_max_length=length --map number_gpus=gpus --map number_nodes=nodes \
  --map gpu_model=gpu --map batch_size=batch --map gradient_accumulation_steps=accumulation \
  --map tokens_per_second=rate --map fsdp_sharding_strategy=strategy --map gradient_checkpointing=checkpointing
