#!/usr/bin/env bash
# Runs the kit from its archive alone on the phantom device (docs/internals/phantom.md), five times: whole, with a process that hangs,
# with one that crashes, and with a call that is cut at half of its time, by SIGTERM and by SIGKILL. Each must leave its
# table. The working tree is hidden meanwhile, so that nothing is read that the archive lacks. Models have two layers, and
# rows 64 tokens.
#
#   bench/gpu/rehearse.sh ARCHIVE.tar.xz PYTHON FOLDER
#
# PYTHON has torch of the archive's version, transformers, peft and accelerate. FOLDER gets what each call printed and left.
# Kernels run on the host: tests and the engine are those of build/cuda that end in _on_host.
set -euo pipefail
usage="usage: bench/gpu/rehearse.sh ARCHIVE.tar.xz PYTHON FOLDER"
archive=$(realpath "${1:?$usage}") python=${2:?$usage}
mkdir -p "${3:?$usage}"
out=$(realpath "$3")
cd "$(dirname "$0")/../.."
tree=$PWD
host=$(mktemp -d)
trap 'rm -rf "$host"' EXIT
bin=build/cuda/bin
cp -a $bin/sftbench $bin/libsftbench_engine_on_host.so $bin/libsftbench_phantom*.so $bin/phantom $bin/libsftbench_timeline.so "$host/"
for suite in ops model optim tuning engine; do
  [ ! -e "$bin/${suite}_test_on_host" ] || cp "$bin/${suite}_test_on_host" "$host/${suite}_test"
done
ln -s libsftbench_engine_on_host.so "$host/libsftbench_engine_cuda.so"
torch=$("$python" -c 'import importlib.util as u; print(u.find_spec("torch").submodule_search_locations[0])')

# NAME [OPTION...]: a fresh copy of the kit, one call. CUT=SIGNAL:SECONDS ends it from outside.
rehearse() {
  local name=$1 kit begin=$SECONDS status=0
  shift
  kit=$(mktemp -d)
  tar -C "$kit" -xf "$archive"
  cp -a "$host" "$kit/sftbench-kit/build/cuda/on_host"
  rm -rf "${out:?}/$name"
  mkdir -p "$out/$name"
  unshare --mount bash -c '
    set -e
    tree=$1 torch=$2 out=$3 kit=$4 python=$5; shift 5
    # libtorch lies in the tree: it is seen where it was, and nothing else of the tree is.
    held=$(mktemp -d) && mkdir "$held/torch"
    mount --bind "$(dirname "$torch")" "$held/torch"
    mount -t tmpfs none "$tree"
    mkdir -p "$(dirname "$torch")" && mount --bind "$held/torch" "$(dirname "$torch")"
    cd "$kit/sftbench-kit" && bin=$PWD/build/cuda/on_host
    export LD_PRELOAD=$bin/libsftbench_phantom.so LD_LIBRARY_PATH=$bin/phantom
    export SFTBENCH_PHANTOM="{\"count\": 1, \"operators\": \"$bin/libsftbench_phantom_operators.so\"}"
    cut=()
    [ -z "${CUT:-}" ] || cut=(timeout --signal="${CUT%:*}" "${CUT#*:}")
    exec "${cut[@]}" "$python" bench/gpu/run.py "$out" --rehearsal --bin "$bin" --python "$python" "$@"
  ' - "$tree" "$torch" "$out/$name" "$kit" "$python" "$@" >"$out/$name/transcript.txt" 2>&1 || status=$?
  rm -rf "$kit"
  echo "$name: exit $status after $((SECONDS - begin)) s"
  sed 's/^/  /' "$out/$name/transcript.txt" | tail -n "${LINES_SHOWN:-12}"
  [ -s "$out/$name/table.txt" ] && [ -s "$out/$name/results.tar.gz" ] && grep -q ' processes, ' "$out/$name/table.txt" ||
    { echo "$name left no table" >&2; exit 1; }
}

for one in ${REHEARSALS:-whole hangs crashes cut killed}; do
  case $one in
    whole) rehearse whole --seconds 1800 ;;
    hangs) rehearse hangs --seconds 300 --limit 60 --fault losses-bfloat16:hang machine losses ;;
    crashes) rehearse crashes --seconds 300 --fault losses-bfloat16:crash machine losses ;;
    cut) CUT=TERM:60 rehearse cut --seconds 120 ;;
    killed) CUT=KILL:60 rehearse killed --seconds 120 ;;
  esac
done
