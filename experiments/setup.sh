#!/usr/bin/env bash
# Installs what sftbench is built from (Debian 12 packages, as root) and builds it into build/release.
# usage: experiments/setup.sh [--packages-only] [ninja targets...]
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  g++ cmake ninja-build ccache pkg-config git ca-certificates
  libtorch-dev libopenblas0-openmp libdnnl-dev libgloo-dev   # tensors, GEMMs, collectives
  nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libspdlog-dev libpcre2-dev libutf8proc-dev libxxhash-dev
  libsimdjson-dev zlib1g-dev                                 # reading a hundred thousand results; the page of them
  libcurl4-openssl-dev libssl-dev                              # fetching weights, their hashes
  libgtest-dev libgmock-dev libbenchmark-dev python3-jsonschema  # tests and micro-benchmarks
)

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
[ "${1:-}" = --packages-only ] && exit 0

cmake --preset release >build-configure.log 2>&1 || { cat build-configure.log >&2; exit 1; }
rm -f build-configure.log
cmake --build --preset release ${1:+--target "$@"}
