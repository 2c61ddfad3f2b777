#!/usr/bin/env bash
# Builds the CUDA flavor against the PyTorch wheel and runs its tests on the phantom device (src/train/phantom): suites that
# compute, with tensors on device "cuda", the program itself, and a prediction of a GPU's memory.
# usage: tests/cuda/run.sh [SUITE...] [K/N]
#   SUITE  of ops, kernels, model, tuning, optim, parallel, engine, or "program" for the program alone; none: all
#   K/N    a part of the tests of the suites, the Kth of N (0/3 to 2/3)
#   TORCH_CUDA_ARCH_LIST   the architectures to compile for; default: those of the preset
# Needs nvcc; without it the step says so and passes, because the CPU flavor does not depend on it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. experiments/libtorch_cuda.sh

export PATH="$PATH:/usr/local/cuda/bin"
if ! command -v nvcc >/dev/null; then
  echo "skipped: no nvcc on this machine"
  exit 0
fi
command -v pip3 >/dev/null || { apt-get update -qq && apt-get install -y -qq python3-pip >/dev/null; }
wheel=$(libtorch_cuda_folder)
cmake --preset cuda -DCMAKE_PREFIX_PATH="$PWD/$wheel/torch" -DSFTBENCH_TESTS=ON -DSFTBENCH_BENCH=ON \
  ${TORCH_CUDA_ARCH_LIST:+-DTORCH_CUDA_ARCH_LIST="$TORCH_CUDA_ARCH_LIST"} >build/cuda-configure.log 2>&1 ||
  { cat build/cuda-configure.log >&2; exit 1; }
part=0/1 suites=()
for word; do
  if [[ $word == */* ]]; then part=$word; else suites+=("$word"); fi
done
[ ${#suites[@]} -gt 0 ] || suites=(ops kernels model tuning optim parallel engine)
test_of() { if [ "$1" = kernels ]; then echo kernels_test; else echo "$1_test_on_host"; fi; }
tests() { [[ " ${suites[*]} " == *" $1 "* ]]; }
[ "${suites[*]}" != program ] || suites=()

step() { printf -- '--- %s (%s s so far)\n' "$1" "$SECONDS"; }
step "building"
targets=(sftbench sftbench_engine_library sftbench_engine_on_host sftbench_phantom sftbench_phantom_operators
  sftbench_timeline)
for suite in "${suites[@]}"; do targets+=("$(test_of "$suite")"); done
cmake --build --preset cuda --target "${targets[@]}"

if tests kernels; then
  step "what nvcc made of the kernels"
  bash tests/cuda/kernels.sh
fi

bin=$PWD/build/cuda/bin
on_phantom() {
  env LD_PRELOAD="$bin/libsftbench_phantom.so" LD_LIBRARY_PATH="$bin/phantom" SFTBENCH_TEST_DEVICE=cuda \
    SFTBENCH_PHANTOM="{\"count\": 8, \"operators\": \"$bin/libsftbench_phantom_operators.so\"${SEED:+, \"seed\": $SEED}}" "$@"
}

# Kernels of quantized states run as fibers on the host: these take a minute each.
slow='Optimizers/EveryOffloadable.*bit:Optimizers/EveryOffloadable.*8:Offload.TrainsToTheSameBits'

# Ranks of a test are processes that are forked from it, and a process that has used a GPU cannot be forked: each test has
# a process of its own. The host computes with one core where operators fall back: each suite runs as two halves at a time.
which=${part%/*} parts=${part#*/}
for suite in "${suites[@]}"; do
  step "$suite on the phantom device, part $part"
  halves=()
  for half in 0 1; do
    GTEST_TOTAL_SHARDS=$((2 * parts)) GTEST_SHARD_INDEX=$((2 * which + half)) \
      on_phantom "$bin/$(test_of "$suite")" --each-in-a-process --gtest_filter="-$slow" >"build/cuda-$suite-$half.log" &
    halves+=($!)
  done
  failed=0
  for half in 0 1; do
    wait "${halves[half]}" || failed=1
    grep ' tests, each in a process' "build/cuda-$suite-$half.log" || failed=1
  done
  [ $failed -eq 0 ] || { cat "build/cuda-$suite"-[01].log; exit 1; }
done

if tests parallel && tests optim; then
  step "work of side streams held back at random"
  SEED=1 on_phantom "$bin/parallel_test_on_host" --gtest_brief=1
  SEED=2 on_phantom "$bin/optim_test_on_host" --gtest_brief=1 --gtest_filter='StatePager*:Offloaded*'
fi

step "the program"
python3 tests/cuda/program.py "$bin"
python3 tests/cuda/attention.py "$bin" 60
python3 tests/cuda/exact.py "$bin/sftbench"
"$bin/sftbench" predict --experiment finetune_full_benchmark-v1.0.0 --set model_name=llama3.1-8b --set number_gpus=8 \
  --set gpu_model=NVIDIA-H100-80GB-HBM3 --set model_max_length=1024 --set batch_size=8 \
  --set distributed_backend=FSDP --exact
