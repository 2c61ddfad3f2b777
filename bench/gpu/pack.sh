#!/usr/bin/env bash
# One archive of everything that bench/gpu/run.sh needs on a machine with a GPU that has python3 with torch, and no compiler
# and no packages of ours: the program, its engine, the tests with their reference data, and the shared libraries of Debian.
#
#   bench/gpu/pack.sh ARCHIVE.tar.xz [FOLDER of wheels for the peer...]
#
# There:  tar xf ARCHIVE.tar.xz && cd sftbench-kit && . ./environment && PARTS=smoke bench/gpu/run.sh "$OUT"
# The torch there must be the version that the build was made against. STAGES in the archive lists calls of a few minutes.
set -euo pipefail
archive=$(realpath "${1:?usage: bench/gpu/pack.sh ARCHIVE.tar.xz [WHEELS...]}")
shift
wheels=()
for wheel in "$@"; do wheels+=("$(realpath "$wheel")"); done
cd "$(dirname "$0")/../.."
build=${BUILD:-build/cuda}
suites="ops model optim tuning engine kernels parallel"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
kit=$work/sftbench-kit
mkdir -p "$kit"/{build/cuda/bin,lib,wheels}
programs=("$build/bin/sftbench" "$build/bin/libsftbench_engine_cuda.so")
for suite in $suites; do programs+=("$build/bin/${suite}_test"); done
[ ! -x "$build/bin/collectives_bench" ] || programs+=("$build/bin/collectives_bench")
for program in "${programs[@]}"; do
  strip --strip-unneeded -o "$kit/build/cuda/bin/$(basename "$program")" "$program"
done

# What Debian's packages provide and the C++ and C libraries do not. libtorch and NVIDIA's come from the torch there.
ldd "${programs[@]}" | sed -n 's/^\t\(lib[^ ]*\) => \(\/[^ ]*\) .*/\2/p' | sort -u |
  grep -vE '/(libc|libstdc\+\+|libm|libdl|librt|libpthread|libgcc_s|ld-linux[^/]*)\.so|libtorch|libc10|libcu|libnccl|libnv|libgomp' |
  xargs -I{} cp -L {} "$kit/lib/"

# What the program reads, where it looks for it beside its own folder.
mkdir -p "$kit/build/cuda/share/sftbench"
cp -r config experiments datasets "$kit/build/cuda/share/sftbench/"

mkdir -p "$kit/bench" "$kit/tests"
cp -r bench/gpu bench/peers "$kit/bench/"
cp -r tests/reference "$kit/tests/"
[ ${#wheels[@]} -eq 0 ] || cp "${wheels[@]}" "$kit/wheels/"
git rev-parse HEAD >"$kit/COMMIT"

# The tests look for their data where the build was.
cat >"$kit/environment" <<END
kit=\$(cd "\$(dirname "\${BASH_SOURCE[0]}")" && pwd)
if [ ! -e "$PWD/tests" ]; then mkdir -p "$PWD" && ln -s "\$kit/tests" "$PWD/tests"; fi
torch=\$(\${PYTHON:-python3} -c 'import os, torch; print(os.path.dirname(torch.__file__))')
export LD_LIBRARY_PATH="\$kit/lib:\$torch/lib:\$(echo "\$torch"/../nvidia/*/lib | tr ' ' ':')"
if ls "\$kit"/wheels/*.whl >/dev/null 2>&1; then
  \${PYTHON:-python3} -m pip install -q --no-index --no-deps --no-compile --target "\$kit/site" "\$kit"/wheels/*.whl
  export PYTHONPATH="\$kit/site"
fi
END
cat >"$kit/STAGES" <<'END'
minutes  call
1        PARTS=smoke bench/gpu/run.sh $OUT
7        PARTS=tests bench/gpu/run.sh $OUT
8        PARTS=goals ROUNDS=1 STEPS=8 bench/gpu/run.sh $OUT
6        PARTS="collectives shards" ROUNDS=1 bench/gpu/run.sh $OUT
9        PARTS=runs ROUNDS=1 bench/gpu/run.sh $OUT
4        PARTS=runs ROUNDS=1 bench/gpu/run.sh $OUT granite-3.0-1b-a400m-base
6        PARTS=adapters bench/gpu/run.sh $OUT
4        PARTS=optimizers bench/gpu/run.sh $OUT
3        PARTS=graphs bench/gpu/run.sh $OUT
END
tar -C "$work" -cJf "$archive" sftbench-kit
echo "$archive: $(du -m "$archive" | cut -f1) MiB of $(git rev-parse --short HEAD), for torch $(basename "$(ls -d build/libtorch-cuda-* | head -1)" | sed 's/libtorch-cuda-//')"
