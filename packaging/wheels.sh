#!/usr/bin/env bash
# Packs the wheels `sftbench` and `sftbench-engine` from build/release and the given engines. packages.sh calls it.
#   packaging/wheels.sh FOLDER ENGINE...
# The program is a script of its wheel, as it is of ruff's and cmake's: it starts without Python. Its files go to
# PREFIX/share/sftbench and PREFIX/lib/sftbench, where every installed program looks for them. The engine lies beside torch
# in site-packages, whose libraries it loads from there.
#   SFTBENCH_TORCH_VERSION   the torch that the engines were built against
set -euo pipefail
folder=$(realpath "$1")
shift
engines=("$@")
cd "$(dirname "$0")/.."
version=$(sed -n 's/^project(sftbench VERSION \([0-9.]*\) .*/\1/p' CMakeLists.txt)
torch=${SFTBENCH_TORCH_VERSION%.*}
# Ubuntu 22.04 and later, Debian 12 and later, RHEL 10: by glibc 2.35 and the C++ library of GCC 12.
glibc=2.35 glibcxx=3.4.30
tag=py3-none-manylinux_${glibc/./_}_x86_64
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What every Linux has that the tag stands for, and what torch brings.
given='^(linux-vdso|ld-linux-x86-64|lib(c|m|dl|rt|util|pthread|stdc\+\+|gcc_s|gomp|torch.*|c10.*|cu.*|nv.*)|libarrow|libparquet)\.so'

bundle() {  # FOLDER FILE...: copies there the libraries that FILEs need of this machine, with their licenses
  local into=$1 library package
  shift
  mkdir -p "$into"
  ldd "$@" | sed -n 's/^\t\(lib[^ ]*\) => \(\/[^ ]*\) .*/\1 \2/p' | sort -u | while read -r name library; do
    [[ ! $name =~ $given ]] || continue
    cp -L "$library" "$into/$name"
    patchelf --set-rpath '$ORIGIN' "$into/$name"
    package=$(dpkg-query -S "*/$(basename "$(realpath "$library")")" | head -1)
    cp "/usr/share/doc/${package%%:*}/copyright" "$licenses/${package%%:*}.copyright"
  done
}

begin() {  # NAME SUMMARY, further METADATA on the standard input: $wheel, $licenses
  local name=${1//-/_}
  wheel=$work/$name
  licenses=$wheel/$name-$version.dist-info/licenses
  mkdir -p "$licenses"
  cp LICENSE packaging/copyright "$licenses/"
  printf 'Wheel-Version: 1.0\nGenerator: packaging/wheels.sh\nRoot-Is-Purelib: false\nTag: %s\n' "$tag" \
    >"$wheel/$name-$version.dist-info/WHEEL"
  printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: %s\nLicense: Apache-2.0\nRequires-Python: >=3.9\n' \
    "$1" "$version" "$2" >"$wheel/$name-$version.dist-info/METADATA"
  cat >>"$wheel/$name-$version.dist-info/METADATA"
}

end() {
  # The tag's promise: no newer symbol of the C and C++ libraries.
  local newest
  newest=$(find "$wheel" -type f -exec sh -c 'file -b "$1" | grep -q ^ELF && objdump -T "$1"' - {} \; |
    grep -oE 'GLIBC(XX)?_[0-9.]+' | sort -uV)
  for limit in "GLIBC_$glibc" "GLIBCXX_$glibcxx"; do
    local highest
    highest=$(grep "^${limit%%_*}_" <<<"$newest" | tail -1)
    [ "$(printf '%s\n' "$limit" "$highest" | sort -V | tail -1)" = "$limit" ] ||
      { echo "wheels.sh: $(basename "$wheel") needs $highest, its tag stands for $limit" >&2; exit 1; }
  done
  rm -f "$folder/$(basename "$wheel")-"*.whl
  /usr/bin/python3 -m wheel pack --dest-dir "$folder" "$wheel" >/dev/null
}

begin sftbench "$(sed -n 's/.*PACKAGE_DESCRIPTION_SUMMARY "\(.*\)".*/\1/p' cmake/install.cmake)" <<END
Provides-Extra: train
Requires-Dist: sftbench-engine==$version ; extra == 'train'
Description-Content-Type: text/markdown

\`sftbench\` measures what it costs to fine-tune a language model. It predicts, compares and recommends configurations
without a measurement, too:

    sftbench recommend --model llama3.1-8b --entries 10000
    sftbench --help

\`pip install 'sftbench[train]'\` adds the engine that trains.
END
cmake --install build/release --prefix "$work/prefix" --strip >/dev/null
data=$wheel/sftbench-$version.data
mkdir -p "$data/data/lib" "$data/scripts"
mv "$work/prefix/share" "$work/prefix/lib" "$data/data/"
rm -r "$data"/data/lib/sftbench/libsftbench_engine.so "$data"/data/share/{lintian,doc}
mv "$work/prefix/bin/sftbench" "$data/scripts/"
bundle "$data/data/lib/sftbench" "$data/scripts/sftbench"
patchelf --set-rpath '$ORIGIN/../lib/sftbench' "$data/scripts/sftbench"
cp build/pyarrow/pyarrow-*.dist-info/licenses/LICENSE.txt "$licenses/LICENSE.arrow"
end

begin sftbench-engine "the training half of sftbench, on the torch of the same environment" <<END
Requires-Dist: sftbench==$version
Requires-Dist: torch==$torch.*
Description-Content-Type: text/markdown

\`pip install 'sftbench[train]'\` installs it. It trains on CPUs with any build of torch $torch, and on NVIDIA GPUs
with a build for CUDA.
END
mkdir "$wheel/sftbench_engine"
echo "$torch" >"$wheel/sftbench_engine/torch"  # what the program refuses another torch by
for engine in "${engines[@]}"; do
  bundle "$wheel/sftbench_engine/lib" "$engine"
  strip --strip-unneeded -o "$wheel/sftbench_engine/$(basename "$engine")" "$engine"
  patchelf --set-rpath '$ORIGIN/lib:$ORIGIN/../torch/lib:$ORIGIN/../nvidia/cu13/lib' \
    "$wheel/sftbench_engine/$(basename "$engine")"
done
end
