#!/usr/bin/env bash
# Everything that only a GPU can tell: operators, models and training runs of the tests against their references; NCCL's
# collectives; what the sharding layer costs one rank, and two ranks on one GPU; whole runs (full, LoRA, prompt tuning,
# GPTQ-LoRA, optimizers, float8) beside Hugging Face Trainer and peft on the same shapes. A short table comes last; JSON
# and logs are left in FOLDER, where parts of several calls come together.
#
#   bench/gpu/run.sh FOLDER [MODEL...]
#
#   PARTS     of: smoke tests collectives shards two_ranks runs adapters optimizers goals graphs (default: all, in this order)
#   BUILD     folder of a CUDA build with tests and benchmarks (default build/cuda)
#   PYTHON    has torch, transformers, peft (default python3)
#   ROUNDS    of alternating runs in the parts shards and runs (default 2); STEPS of a run (default 12)
#   LIMIT     seconds that one process may take (default 300): what hangs ends
#   DEVICE    cpu rehearses the script where there is no GPU; LENGTH, BATCH_SIZE, ADAPTER_* then make runs small
#
# A part, a test or a run that fails is a line of the table, not the end. Where a call may take some minutes only, several
# calls share the work by PARTS and MODEL: a call that is cut short loses the process that ran, and its successor goes on
# with what it is asked for. `goals` measures what users compare programs by: LoRA of 8B, full 8B, full 135M, and GPTQ-LoRA
# beside LoRA. `runs` starts 8 processes a model, `shards` 18, `adapters` 10 of the last model, `optimizers` 15, `graphs` 6.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:?usage: bench/gpu/run.sh FOLDER [MODEL...]}
shift
build=${BUILD:-build/cuda}
python=${PYTHON:-python3}
device=${DEVICE:-cuda}
limit=${LIMIT:-300}
rounds=${ROUNDS:-2}
models=("$@")
[ ${#models[@]} -gt 0 ] || models=(smollm2-135m granite-3.1-2b llama3.1-8b)
mkdir -p "$out"
"$build/bin/sftbench" doctor --format json >"$out/doctor.json" || true

# The entity property gpu_model spells a product's name with dashes.
on_device=(number_gpus=0)
if [ "$device" != cpu ]; then
  gpu=$(nvidia-smi --id=0 --query-gpu=name --format=csv,noheader | tr ' ' '-')
  on_device=(number_gpus=1 "gpu_model=$gpu")
fi

# bounded LOG COMMAND...: its errors are added to LOG, and that it took too long.
bounded() {
  local log=$1 status=0
  shift
  timeout --kill-after=20 "$limit" "$@" 2>>"$log" || status=$?
  [ $status -ne 124 ] || echo "ended after $limit s" >>"$log"
}

# run NAME EXPERIMENT [--OPTION | PROPERTY=VALUE]...: one measurement of ours; its job in NAME.job.json, its result in
# NAME.N.json, N the next free number. Of a property that is given twice the later value holds.
run() {
  local name=$1 experiment=$2 number=1 setting measure
  local -A values=()
  shift 2
  measure=("$build/bin/sftbench" run --experiment "$experiment" --weights random)
  for setting in "${on_device[@]}" gradient_accumulation_steps=1 "$@"; do
    if [[ $setting == --* ]]; then measure+=("$setting"); else values[${setting%%=*}]=${setting#*=}; fi
  done
  for setting in "${!values[@]}"; do measure+=(--set "$setting=${values[$setting]}"); done
  if [ ! -s "$out/$name.job.json" ] && ! "${measure[@]}" --dry-run >"$out/$name.job.json" 2>>"$out/$name.log"; then
    : >"$out/$name.1.json"
    return 0
  fi
  while [ -e "$out/$name.$number.json" ]; do number=$((number + 1)); done
  bounded "$out/$name.log" "${measure[@]}" --no-progress --output "$out/results" --format json >"$out/$name.json.part"
  mv "$out/$name.json.part" "$out/$name.$number.json"
}

# The same job under Hugging Face Trainer.
peer() {
  local name=$1 number=1
  [ -s "$out/$name.job.json" ] || return 0
  while [ -e "$out/$name.$number.hf" ]; do number=$((number + 1)); done
  bounded "$out/$name.log" "$python" bench/peers/hf_trainer.py --job "$out/$name.job.json" >"$out/$name.hf.part"
  mv "$out/$name.hf.part" "$out/$name.$number.hf"
}

full=finetune_full_benchmark-v1.0.0
shape_of() {  # MODEL
  shape=("model_name=$1" "model_max_length=${LENGTH:-2048}" "batch_size=${BATCH_SIZE:-4}" "max_steps=${STEPS:-12}")
}

# Half a minute that tells whether the rest is worth its time.
smoke() {
  "$build/bin/sftbench" doctor || true
  SFTBENCH_TEST_DEVICE=$device bounded "$out/smoke.log" "$build/bin/ops_test" --gtest_brief=1 \
    --gtest_filter='Swiglu*:RmsNorm*:Rope*:*CrossEntropy*-*AreRefused*' >>"$out/smoke.log"
  tail -n 3 "$out/smoke.log"
  run smoke $full model_name=smollm2-135m "model_max_length=${LENGTH:-512}" batch_size=2 max_steps=3
}

# Tests that run on any device; the rest is about the host.
tests() {
  local -A suites=(
    [ops_test]='*-*AreRefused:*NumberOfThreads*'
    [model_test]='*HuggingFaceTest*'
    [optim_test]='*'
    [tuning_test]='*'
    [engine_test]='*GoldenTraining*:*TrainingVariants*:*LossScaling*:*DistributeOneRank*:StepGraph*')
  local test
  for test in "${!suites[@]}"; do
    rm -f "$out/$test.json"
    : >"$out/$test.log"
    SFTBENCH_TEST_DEVICE=$device bounded "$out/$test.log" "$build/bin/$test" --gtest_filter="${suites[$test]}" \
      --gtest_output="json:$out/$test.json" >>"$out/$test.log"
  done
}

# By size, for every rank count that there are GPUs for; where there is one, a world of one, and two ranks that share it.
collectives() {
  local gpus=1 ranks sizes=(--min-bytes 65536 --max-bytes $((256 << 20)))
  if [ "$device" = cpu ]; then
    sizes=(--min-bytes 65536 --max-bytes $((1 << 20)))
  else
    gpus=$(nvidia-smi -L | wc -l)
  fi
  for ranks in 1 2 4 8; do
    [ "$ranks" -le $((gpus > 2 ? gpus : 2)) ] || continue
    : >"$out/collectives-$ranks.log"
    NCCL_MULTI_RANK_GPU_ENABLE=1 bounded "$out/collectives-$ranks.log" "$build/bin/collectives_bench" \
      --device "$device" --ranks "$ranks" "${sizes[@]}" >"$out/collectives-$ranks.md"
  done
}

# One rank through each strategy and the communication library, and past both, in turn: equal losses, and what it costs.
strategies=(DDP NO_SHARD FULL_SHARD SHARD_GRAD_OP HYBRID_SHARD HYBRID_SHARD_ZERO2)
under() {  # STRATEGY: the properties that choose it
  if [ "$1" = DDP ]; then echo distributed_backend=DDP; else echo "distributed_backend=FSDP fsdp_sharding_strategy=$1"; fi
}
shards() {
  local round strategy precision
  shape_of "${models[0]}"
  shape+=(gradient_checkpointing=false)
  for round in $(seq "$rounds"); do
    run shards-none $full "${shape[@]}"
    for strategy in "${strategies[@]}"; do
      run "shards-$strategy" $full "${shape[@]}" $(under "$strategy") --distribute-one-rank
    done
  done
  for precision in fp16 fp8; do
    shape+=("accelerate_config_mixed_precision=$precision" torch_dtype=float32)
    run "shards-$precision-none" $full "${shape[@]}"
    run "shards-$precision-FULL_SHARD" $full "${shape[@]}" $(under FULL_SHARD) --distribute-one-rank
  done
}

# Two ranks, on one GPU where NCCL allows it (2.30 or newer), against one rank that takes the same micro-batches in turn.
two_ranks() {
  local strategy batch=${BATCH_SIZE:-4} ranks=(number_gpus=2)
  [ "$device" != cpu ] || ranks=(--ranks=2)
  shape_of "${models[0]}"
  shape+=(gradient_checkpointing=false torch_dtype=float32)
  run two_ranks-one $full "${shape[@]}" gradient_accumulation_steps=2 "batch_size=$batch"
  export NCCL_MULTI_RANK_GPU_ENABLE=1
  for strategy in DDP NO_SHARD FULL_SHARD SHARD_GRAD_OP HYBRID_SHARD; do
    run "two_ranks-$strategy" $full "${shape[@]}" "batch_size=$((2 * batch))" "${ranks[@]}" $(under "$strategy")
  done
  unset NCCL_MULTI_RANK_GPU_ENABLE
}

# Ours and Hugging Face's in turn, on the job that --dry-run resolved.
runs() {
  local model checkpointing round
  for model in "${models[@]}"; do
    shape_of "$model"
    for checkpointing in true false; do
      for round in $(seq "$rounds"); do
        run "$model-full-checkpointing-$checkpointing" $full "${shape[@]}" "gradient_checkpointing=$checkpointing"
        peer "$model-full-checkpointing-$checkpointing"
      done
    done
  done
}

# At the length that published tables have.
adapters() {
  local model=${models[-1]} checkpointing experiment
  shape=("model_name=$model" "model_max_length=${ADAPTER_LENGTH:-4096}" "batch_size=${ADAPTER_BATCH_SIZE:-4}"
    "max_steps=${STEPS:-12}")
  for checkpointing in true false; do
    for experiment in lora pt; do
      run "$model-$experiment-checkpointing-$checkpointing" "finetune_${experiment}_benchmark-v1.0.0" "${shape[@]}" \
        "gradient_checkpointing=$checkpointing"
      peer "$model-$experiment-checkpointing-$checkpointing"
    done
    run "$model-gptq-lora-checkpointing-$checkpointing" finetune_gptq-lora_benchmark-v1.0.0 "${shape[@]}" \
      torch_dtype=float16 "gradient_checkpointing=$checkpointing"
  done
}

# What has kernels or memory of its own on a GPU: every optimizer of 8 or 4 bits, paged, or low rank; float8.
optimizers() {
  local optimizer
  shape_of "${models[0]}"
  shape+=("max_steps=$((${STEPS:-12} < 6 ? ${STEPS:-12} : 6))")
  for optimizer in adamw_torch adamw_8bit lion_8bit ademamix_8bit rmsprop_bnb_8bit paged_adamw_32bit paged_adamw_8bit \
      paged_lion_8bit paged_ademamix_8bit adamw_torch_4bit galore_adamw galore_adamw_8bit lomo adalomo; do
    run "optim-$optimizer" $full "${shape[@]}" "optim=$optimizer"
  done
  run precision-fp8 $full "${shape[@]}" accelerate_config_mixed_precision=fp8
}

# LoRA r 16 on all linear layers without dropout, as published tables have it; Trainer with Liger where it is installed.
goals() {
  local round lora=(--lora-r=16 --lora-targets=all-linear --lora-dropout=0)
  local large=(model_name=llama3.1-8b "model_max_length=${ADAPTER_LENGTH:-4096}" "max_steps=${STEPS:-12}")
  for round in $(seq "$rounds"); do
    run goal-lora-8b finetune_lora_benchmark-v1.0.0 "${large[@]}" "batch_size=${ADAPTER_BATCH_SIZE:-2}" "${lora[@]}" \
      gradient_checkpointing=false
    peer goal-lora-8b
    run goal-full-8b $full "${large[@]}" "batch_size=${GOAL_FULL_BATCH_SIZE:-1}" gradient_checkpointing=true
    peer goal-full-8b
    run goal-full-135m $full model_name=smollm2-135m "model_max_length=${LENGTH:-2048}" \
      "batch_size=${GOAL_SMALL_BATCH_SIZE:-16}" "max_steps=${STEPS:-12}" gradient_checkpointing=false
    peer goal-full-135m
    for experiment in lora gptq-lora; do
      run "goal-$experiment-8b-checkpointing" "finetune_${experiment}_benchmark-v1.0.0" "${large[@]}" "${lora[@]}" \
        "batch_size=${ADAPTER_BATCH_SIZE:-4}" torch_dtype=float16 gradient_checkpointing=true
    done
  done
}

# A step that is launched kernel by kernel and as one graph, in turn, and how far the losses are apart.
graphs() {
  local round graph
  local small=(model_name=smollm2-135m "model_max_length=${LENGTH:-2048}" "max_steps=${STEPS:-12}"
    gradient_checkpointing=false)
  for round in $(seq "$rounds"); do
    for graph in false true; do
      for batch in ${GRAPH_BATCH_SIZES:-1 16}; do
        run "graph-$graph-full-135m-batch-$batch" $full "${small[@]}" "batch_size=$batch" "step_graph=$graph"
      done
      run "graph-$graph-lora-135m" finetune_lora_benchmark-v1.0.0 "${small[@]}" --lora-r=16 --lora-targets=all-linear \
        --lora-dropout=0 batch_size=4 "step_graph=$graph"
    done
  done
}

parts=${PARTS:-smoke tests collectives shards two_ranks runs adapters optimizers goals graphs}
for part in $parts; do
  case $part in
    smoke | tests | collectives | shards | two_ranks | runs | adapters | optimizers | goals | graphs) ;;
    *) echo "there is no part '$part'" >&2; exit 2 ;;
  esac
done
for part in $parts; do
  begin=$SECONDS
  "$part" || echo "part $part ended early" >&2
  echo "part $part: $((SECONDS - begin)) s"
done
"$python" bench/gpu/table.py "$out"
