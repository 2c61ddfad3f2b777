#!/usr/bin/env bash
# Builds the packages of this version into FOLDER (default build/packages):
#
#   sftbench_VERSION_amd64.deb       for Debian 12, trains on CPUs with Debian's libtorch
#   sftbench-VERSION-Linux.tar.gz    for machines whose packages somebody else installs
#   sftbench-VERSION-*.whl           the program for pip, without torch
#   sftbench_engine-VERSION-*.whl    what sftbench[train] adds: the engine, on the torch of the same environment
#
#   packaging/packages.sh [--cuda] [--try] [FOLDER]
#
#   --cuda   the second wheel also trains on NVIDIA GPUs (nvcc: experiments/setup_cuda.sh gets it)
#   --try    each is installed in a bare Debian 12 (debootstrap, as root), where it measures while the clone is hidden
set -euo pipefail
cuda=no try=no
while [[ ${1:-} == --* ]]; do
  case $1 in
    --cuda) cuda=yes ;;
    --try) try=yes ;;
    *) echo "usage: packaging/packages.sh [--cuda] [--try] [FOLDER]" >&2; exit 2 ;;
  esac
  shift
done
mkdir -p "${1:-build/packages}"
folder=$(realpath "${1:-build/packages}")
cd "$(dirname "$0")/.."

tools=(patchelf python3-wheel python3-pip file)
[ $try = no ] || tools+=(debootstrap)
dpkg -s "${tools[@]}" >/dev/null 2>&1 || apt-get install -y -qq --no-install-recommends "${tools[@]}" >/dev/null

bash experiments/setup.sh --cpu sftbench sftbench_parquet
rm -rf build/release/packages
cpack --config build/release/CPackConfig.cmake -G "DEB;TGZ" >build/cpack.log || { cat build/cpack.log >&2; exit 1; }
cp build/release/packages/sftbench* "$folder/"

# The engine of the wheel: against the torch that pip installs. One build serves torch with and without CUDA.
. experiments/libtorch_cuda.sh
torch=$PWD/$(libtorch_cuda_folder)/torch
cmake --preset release -B build/wheel -DSFTBENCH_TESTS=OFF -DCMAKE_PREFIX_PATH="$torch" >build/wheel.log 2>&1 ||
  { cat build/wheel.log >&2; exit 1; }
cmake --build build/wheel --target sftbench_engine_library
engines=(build/wheel/bin/libsftbench_engine.so)
if [ $cuda = yes ]; then
  bash experiments/setup_cuda.sh
  engines+=(build/cuda/bin/libsftbench_engine_cuda.so)
fi
SFTBENCH_TORCH_VERSION=$torch_version bash packaging/wheels.sh "$folder" "${engines[@]}"
(cd "$folder" && ls -l sftbench*)
[ $try = no ] || bash packaging/try.sh "$folder"
