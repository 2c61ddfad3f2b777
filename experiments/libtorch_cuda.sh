# shellcheck shell=bash
# Sourced: libtorch for CUDA out of the PyTorch wheel, and what it needs, in folders below build/.
torch_version=${SFTBENCH_TORCH_VERSION:-2.11.0}

pip_into() {  # FOLDER REQUIREMENT...: without what they depend on
  local folder=$1
  shift
  /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-deps \
    --target "$folder" "$@"
}

# Prints the folder, after installing the wheel alone there. The phantom device needs no more: it stands in for NVIDIA's
# libraries.
libtorch_cuda_folder() {
  local folder=build/libtorch-cuda-$torch_version
  if [ ! -d "$folder/torch" ]; then
    echo "Installing torch $torch_version into $folder" >&2
    rm -rf "$folder.partial"
    pip_into "$folder.partial" "torch==$torch_version" >&2
    mv "$folder.partial" "$folder"
  fi
  echo "$folder"
}

# with_nvidia_libraries FOLDER: the libraries that the wheel itself asks for, of the versions that it names, and the
# compiler of the same toolkit: FOLDER/nvidia/cu13 is what /usr/local/cuda is elsewhere.
with_nvidia_libraries() {
  local folder=$1 toolkit
  [ ! -f "$folder/nvidia/complete" ] || return 0
  toolkit=$(sed -n 's/^Requires-Dist: cuda-toolkit[^=]*==\([0-9.]*\).*/\1/p' "$folder"/torch-*.dist-info/METADATA)
  echo "Installing CUDA $toolkit, cuDNN and NCCL into $folder/nvidia"
  rm -rf "$folder.nvidia"
  sed -n 's/^Requires-Dist: \(nvidia-[^; ]*\).*/\1/p' "$folder"/torch-*.dist-info/METADATA |
    xargs /usr/bin/python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
      --target "$folder.nvidia" \
      "cuda-toolkit[cccl,crt,cublas,cudart,cufft,cufile,cupti,curand,cusolver,cusparse,nvcc,nvjitlink,nvrtc,nvtx,nvvm]==$toolkit"
  rm -rf "$folder/nvidia"
  mv "$folder.nvidia/nvidia" "$folder/nvidia"
  rm -rf "$folder.nvidia"
  # The linker looks for libcudart.so, the wheels have libcudart.so.13.
  local library name
  for library in "$folder"/nvidia/cu13/lib/lib*.so.*; do
    name=$(basename "$library")
    ln -sf "$name" "$(dirname "$library")/${name%%.so*}.so"
  done
  touch "$folder/nvidia/complete"
}
