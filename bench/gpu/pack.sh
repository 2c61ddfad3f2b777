#!/usr/bin/env bash
# Builds the programs of the kit and packs them with what they read, for a machine with a GPU (bench/gpu/README.md). That
# needs python3 with the torch that the build was made against, and no compiler and no packages of ours.
#
#   bench/gpu/pack.sh ARCHIVE.tar.xz [WHEEL or FOLDER of wheels...]   for the peer, for example liger-kernel
#
#   BUILD   a folder that is built already, in place of build/cuda, which is configured and built here
set -euo pipefail
archive=$(realpath "${1:?usage: bench/gpu/pack.sh ARCHIVE.tar.xz [WHEELS...]}")
shift
wheels=()
for given in "$@"; do
  if [ -d "$given" ]; then wheels+=("$(realpath "$given")"/*.whl); else wheels+=("$(realpath "$given")"); fi
done
cd "$(dirname "$0")/../.."
suites=(ops model optim tuning engine)

if [ -z "${BUILD:-}" ]; then
  . experiments/libtorch_cuda.sh
  export PATH="$PATH:/usr/local/cuda/bin"
  cmake --preset cuda -DCMAKE_PREFIX_PATH="$PWD/$(libtorch_cuda_folder)/torch" -DSFTBENCH_TESTS=ON -DSFTBENCH_BENCH=ON \
    ${TORCH_CUDA_ARCH_LIST:+-DTORCH_CUDA_ARCH_LIST="$TORCH_CUDA_ARCH_LIST"} >build/cuda-configure.log 2>&1 ||
    { cat build/cuda-configure.log >&2; exit 1; }
  cmake --build --preset cuda --target sftbench sftbench_engine_library sftbench_timeline collectives_bench "${suites[@]/%/_test}"
fi
bin=$PWD/${BUILD:-build/cuda}/bin

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
kit=$work/sftbench-kit
mkdir -p "$kit"/{build/cuda/bin,lib,wheels,bench,tests}
programs=(sftbench libsftbench_engine_cuda.so libsftbench_timeline.so collectives_bench "${suites[@]/%/_test}")
for program in "${programs[@]}"; do
  # A kernel that was compiled for the host would read a GPU's addresses with the processor.
  if nm -C "$bin/$program" | grep 'sftbench::ops::host::' >/dev/null; then
    echo "pack.sh: $bin/$program runs kernels on the host: a GPU needs the target without _on_host" >&2
    exit 1
  fi
  strip --strip-unneeded -o "$kit/build/cuda/bin/$program" "$bin/$program"
done

# What Debian's packages provide and the C++ and C libraries do not. libtorch and NVIDIA's come from the torch there.
(cd "$bin" && ldd "${programs[@]}") | sed -n 's/^\t\(lib[^ ]*\) => \(\/[^ ]*\) .*/\2/p' | sort -u |
  grep -vE '/(libc|libstdc\+\+|libm|libdl|librt|libpthread|libgcc_s|ld-linux[^/]*)\.so|libtorch|libc10|libcu|libnccl|libnv|libgomp' |
  xargs -I{} cp -L {} "$kit/lib/"

# What the program reads, where it looks for it beside its own folder.
mkdir -p "$kit/build/cuda/share/sftbench"
cp -r config experiments datasets "$kit/build/cuda/share/sftbench/"
cp -r bench/gpu bench/peers "$kit/bench/"
cp -r tests/reference "$kit/tests/"
[ ${#wheels[@]} -eq 0 ] || cp "${wheels[@]}" "$kit/wheels/"
git rev-parse HEAD >"$kit/COMMIT"
find "$kit" -name __pycache__ -prune -exec rm -rf {} +
XZ_OPT=-T2 tar -C "$work" -cJf "$archive" sftbench-kit
echo "$archive: $(du -m "$archive" | cut -f1) MiB of $(git rev-parse --short HEAD)"
