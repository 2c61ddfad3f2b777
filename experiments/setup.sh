#!/usr/bin/env bash
# Installs what sftbench is built from (packages of Debian 12 or 13, as root) and builds it into build/release.
# usage: experiments/setup.sh [--cuda|--cpu] [--packages-only] [ninja targets...]
#   --cuda   also the engine for NVIDIA GPUs, into build/cuda: the default where there is a GPU (setup_cuda.sh)
#   --cpu    the engine for CPUs alone
# Targets `all` and `sftbench_parquet` also get Apache Arrow, for the vision datasets: Debian 12 has no package
# of it, so it comes out of the pyarrow wheel, put into build/pyarrow. SFTBENCH_WITHOUT_PARQUET=1 goes without: everything
# but vision datasets works, and their tests say that they skip.
set -euo pipefail
cd "$(dirname "$0")/.."

cuda=no packages_only=no
[ -e /dev/nvidiactl ] && cuda=yes
while [[ ${1:-} == -* ]]; do
  case $1 in
    --cuda) cuda=yes ;;
    --cpu) cuda=no ;;
    --packages-only) packages_only=yes ;;
    *)
      echo "setup.sh: no option $1; usage: experiments/setup.sh [--cuda|--cpu] [--packages-only] [targets...]" >&2
      exit 2
      ;;
  esac
  shift
done

packages=(
  g++ cmake ninja-build ccache pkg-config git ca-certificates
  libtorch-dev libopenblas0-openmp libdnnl-dev libgloo-dev   # tensors, GEMMs, collectives
  nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libspdlog-dev libpcre2-dev libutf8proc-dev libxxhash-dev
  libsimdjson-dev zlib1g-dev                                 # reading a hundred thousand results; the page of them
  libcurl4-openssl-dev libssl-dev                              # fetching weights, their hashes
  libturbojpeg0-dev libpng-dev                               # pictures of the vision datasets
  libminizip-dev                                             # what workers on Ray are sent
  libgtest-dev libgmock-dev libbenchmark-dev python3-jsonschema  # tests and micro-benchmarks
)

pyarrow=26.0.1
wants_parquet=
for target in "${@:-all}"; do
  case $target in all | sftbench_parquet) wants_parquet=yes ;; esac
done
[ -n "${SFTBENCH_WITHOUT_PARQUET:-}" ] && wants_parquet=
[ -n "$wants_parquet$([ $cuda = no ] || echo pip)" ] && packages+=(python3-pip)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  echo "Installing ${missing[*]}"
  if [ "$(id -u)" -ne 0 ]; then
    echo "setup.sh: these packages are missing and this user is not root: ${missing[*]}" >&2
    exit 2
  fi
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
[ $packages_only = yes ] && exit 0

if [ -n "$wants_parquet" ] && [ ! -d "build/pyarrow/pyarrow-$pyarrow.dist-info" ]; then
  echo "Installing pyarrow $pyarrow into build/pyarrow"
  rm -rf build/pyarrow build/pyarrow.part
  # Whole or not at all.
  if /usr/bin/python3 -m pip install -q --disable-pip-version-check --root-user-action=ignore --no-deps \
      --target build/pyarrow.part "pyarrow==$pyarrow"; then
    mv build/pyarrow.part build/pyarrow
  else
    echo "setup.sh: pyarrow $pyarrow could not be installed; SFTBENCH_WITHOUT_PARQUET=1 builds without vision datasets" >&2
    exit 2
  fi
fi

# An empty cache has nothing to find, so that running the preprocessor first would only cost time.
[ -d "${CCACHE_DIR:-$HOME/.cache/ccache}" ] || export CCACHE_DEPEND=true
# CI takes a warning for an error.
cmake --preset release ${CI:+-DCMAKE_COMPILE_WARNING_AS_ERROR=ON} >build-configure.log 2>&1 || { cat build-configure.log >&2; exit 1; }
rm -f build-configure.log
cmake --build --preset release ${1:+--target "$@"}
[ $cuda = no ] || bash experiments/setup_cuda.sh
