#!/usr/bin/env bash
# Everything that only a GPU can tell, in one go: the operators, models and training runs of the tests against their
# references, then whole runs (full, LoRA, prompt tuning, GPTQ-LoRA, optimisers, float8) beside Hugging Face Trainer and
# peft on the same shapes. A short table comes last; JSON and logs are left in FOLDER.
#
#   bench/gpu/run.sh FOLDER [MODEL...]
#
# Needs a CUDA build with tests in BUILD (default build/cuda) and a PYTHON (default python3) with torch and
# transformers and peft. DEVICE=cpu rehearses the script on a machine without a GPU.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?usage: bench/gpu/run.sh FOLDER [MODEL...]}
shift
build=${BUILD:-build/cuda}
python=${PYTHON:-python3}
device=${DEVICE:-cuda}
models=("$@")
[ ${#models[@]} -gt 0 ] || models=(smollm2-135m granite-3.1-2b llama3.1-8b)
mkdir -p "$out"
"$build/bin/sftbench" doctor --format json >"$out/doctor.json" || true

# Tests that run on any device; the rest is about the host. A test that fails is a line of the table, not the end.
declare -A suites=(
  [ops_test]='*-*AreRefused:*NumberOfThreads*'
  [model_test]='*HuggingFaceTest*'
  [optim_test]='*'
  [tuning_test]='*'
  [engine_test]='*GoldenTraining*:*TrainingVariants*')
for test in "${!suites[@]}"; do
  SFTBENCH_TEST_DEVICE=$device "$build/bin/$test" --gtest_filter="${suites[$test]}" \
    --gtest_output="json:$out/$test.json" >"$out/$test.log" 2>&1 || true
done

# Whole runs, ours and Hugging Face's in turn, on the job that --dry-run resolved: the same shapes and steps.
# compare NAME EXPERIMENT ROUNDS PROPERTY=VALUE...; without a peer for it (PEER=no) ours alone.
gpus=1
[ "$device" = cpu ] && gpus=0
compare() {
  local name=$1 experiment=$2 rounds=$3
  shift 3
  local measure=("$build/bin/sftbench" run --experiment "$experiment" --weights random --set "number_gpus=$gpus"
    --set gradient_accumulation_steps=1)
  for setting in "$@"; do measure+=(--set "$setting"); done
  "${measure[@]}" --dry-run >"$out/$name.job.json" 2>"$out/$name.log" || return 0
  for round in $(seq "$rounds"); do
    "${measure[@]}" --no-progress --output "$out/results" --format json >"$out/$name.$round.json" 2>>"$out/$name.log" || true
    [ "${PEER:-yes}" = yes ] || continue
    "$python" bench/peers/hf_trainer.py --job "$out/$name.job.json" >"$out/$name.$round.hf" 2>>"$out/$name.log" || true
  done
}
for model in "${models[@]}"; do
  shape=("model_name=$model" "model_max_length=${LENGTH:-2048}" "batch_size=${BATCH_SIZE:-4}" "max_steps=${STEPS:-12}")
  for checkpointing in true false; do
    compare "$model-full-checkpointing-$checkpointing" finetune_full_benchmark-v1.0.0 2 "${shape[@]}" \
      "gradient_checkpointing=$checkpointing"
  done
done
# Adapters, at the length that published tables have.
adapted=${models[-1]}
shape=("model_name=$adapted" "model_max_length=${ADAPTER_LENGTH:-4096}" "batch_size=${ADAPTER_BATCH_SIZE:-4}"
  "max_steps=${STEPS:-12}")
for checkpointing in true false; do
  for experiment in lora pt; do
    compare "$adapted-$experiment-checkpointing-$checkpointing" "finetune_${experiment}_benchmark-v1.0.0" 1 "${shape[@]}" \
      "gradient_checkpointing=$checkpointing"
  done
  PEER=no compare "$adapted-gptq-lora-checkpointing-$checkpointing" finetune_gptq-lora_benchmark-v1.0.0 1 "${shape[@]}" \
    torch_dtype=float16 "gradient_checkpointing=$checkpointing"
done
# What has kernels or memory of its own on a GPU: every optimiser of 8 or 4 bits, paged, or low rank; float8.
shape=("model_name=${models[0]}" "model_max_length=${LENGTH:-2048}" "batch_size=${BATCH_SIZE:-4}" max_steps=6)
for optimizer in adamw_torch adamw_8bit lion_8bit ademamix_8bit rmsprop_bnb_8bit paged_adamw_32bit paged_adamw_8bit \
    paged_lion_8bit paged_ademamix_8bit adamw_torch_4bit galore_adamw galore_adamw_8bit lomo adalomo; do
  PEER=no compare "optim-$optimizer" finetune_full_benchmark-v1.0.0 1 "${shape[@]}" "optim=$optimizer"
done
PEER=no compare precision-fp8 finetune_full_benchmark-v1.0.0 1 "${shape[@]}" accelerate_config_mixed_precision=fp8
"$python" bench/gpu/table.py "$out"
