#!/usr/bin/env bash
# Builds the engine for NVIDIA GPUs into build/cuda and puts it beside the program of build/release, which loads it for
# measurements on GPUs. setup.sh --cuda calls it.
#   SFTBENCH_TORCH_VERSION   of the PyTorch wheel whose libtorch it runs on (default 2.11.0)
#   TORCH_CUDA_ARCH_LIST     compute capabilities (default: of this machine's GPUs; without one 8.0 and 9.0). CUDA 13 knows 7.5 and newer
# libtorch, NVIDIA's libraries and the compiler come from PyPI into build/libtorch-cuda-VERSION, once.
set -euo pipefail
cd "$(dirname "$0")/.."
. experiments/libtorch_cuda.sh

wheel=$PWD/$(libtorch_cuda_folder)
with_nvidia_libraries "$wheel"
toolkit=$wheel/nvidia/cu13
if [ -z "${TORCH_CUDA_ARCH_LIST:-}" ] && command -v nvidia-smi >/dev/null; then
  TORCH_CUDA_ARCH_LIST=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | sort -u | paste -sd ';') || true
fi
cmake --preset cuda -DCMAKE_PREFIX_PATH="$wheel/torch" -DSFTBENCH_TESTS=OFF \
  -DCMAKE_CUDA_COMPILER="$toolkit/bin/nvcc" -DCUDAToolkit_ROOT="$toolkit" \
  ${TORCH_CUDA_ARCH_LIST:+-DTORCH_CUDA_ARCH_LIST="$TORCH_CUDA_ARCH_LIST"} >build/cuda-configure.log 2>&1 ||
  { cat build/cuda-configure.log >&2; exit 1; }
cmake --build --preset cuda --target sftbench_engine_library sftbench_phantom
for file in libsftbench_engine_cuda.so libsftbench_phantom.so phantom; do
  ln -sfn "../../cuda/bin/$file" "build/release/bin/$file"
done
echo "The engine for GPUs is built: build/release/bin/sftbench trains on GPUs"
