#!/usr/bin/env bash
# Everything that only a GPU can tell, in one go: the operators, models and training runs of the tests against their
# references, then whole runs beside Hugging Face Trainer on the same shapes. A short table comes last; JSON and logs
# are left in FOLDER.
#
#   bench/gpu/run.sh FOLDER [MODEL...]
#
# Needs a CUDA build with tests in BUILD (default build/cuda) and a PYTHON (default python3) with torch and
# transformers. DEVICE=cpu rehearses the script on a machine without a GPU.
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
  [engine_test]='*GoldenTraining*:*TrainingVariants*')
for test in "${!suites[@]}"; do
  SFTBENCH_TEST_DEVICE=$device "$build/bin/$test" --gtest_filter="${suites[$test]}" \
    --gtest_output="json:$out/$test.json" >"$out/$test.log" 2>&1 || true
done

# Whole runs, ours and Hugging Face's in turn, on the job that --dry-run resolved: the same shapes and steps.
gpus=1
[ "$device" = cpu ] && gpus=0
for model in "${models[@]}"; do
  for checkpointing in true false; do
    name=$model-checkpointing-$checkpointing
    measure=("$build/bin/sftbench" run --experiment finetune_full_benchmark-v1.0.0 --weights random
      --set "model_name=$model" --set "number_gpus=$gpus" --set "model_max_length=${LENGTH:-2048}"
      --set "batch_size=${BATCH_SIZE:-4}" --set gradient_accumulation_steps=1 --set "max_steps=${STEPS:-12}"
      --set "gradient_checkpointing=$checkpointing")
    "${measure[@]}" --dry-run >"$out/$name.job.json" 2>"$out/$name.log" || continue
    for round in 1 2; do
      "${measure[@]}" --no-progress --output "$out/results" --format json >"$out/$name.$round.json" 2>>"$out/$name.log" || true
      "$python" bench/peers/hf_trainer.py --job "$out/$name.job.json" >"$out/$name.$round.hf" 2>>"$out/$name.log" || true
    done
  done
done
"$python" bench/gpu/table.py "$out"
