#!/usr/bin/env bash
# Compiles and links the CUDA flavor against the PyTorch wheel (nothing of it can run without a GPU).
# Needs nvcc; without it the step says so and passes, because the CPU flavor does not depend on it.
set -euo pipefail
cd "$(dirname "$0")/../.."
torch_version=${SFTBENCH_TORCH_VERSION:-2.11.0}

export PATH="$PATH:/usr/local/cuda/bin"
if ! command -v nvcc >/dev/null; then
  echo "skipped: no nvcc on this machine"
  exit 0
fi
wheel=build/libtorch-cuda-$torch_version
if [ ! -d "$wheel/torch" ]; then
  command -v pip3 >/dev/null || { apt-get update -qq && apt-get install -y -qq python3-pip >/dev/null; }
  # Without its dependencies: headers and libtorch itself are enough to compile and link.
  pip3 install --quiet --no-deps --root-user-action=ignore --target "$wheel.partial" "torch==$torch_version"
  mv "$wheel.partial" "$wheel"
fi
cmake --preset cuda -DCMAKE_PREFIX_PATH="$PWD/$wheel/torch" -DSFTBENCH_TESTS=OFF >build/cuda-configure.log 2>&1 ||
  { cat build/cuda-configure.log >&2; exit 1; }
# The executable is the CPU flavor's; what differs is the engine.
cmake --build --preset cuda --target sftbench_engine_library
