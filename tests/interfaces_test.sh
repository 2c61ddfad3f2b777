#!/usr/bin/env bash
# Whether the digest of an interface changes with every header that belongs to it, and with nothing else.
# usage: interfaces_test.sh CMAKE SOURCE
set -euo pipefail
cmake=$1
source=$2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

include=$folder/include/sftbench
mkdir -p "$include/engine" "$include/data" "$include/base"
printf '#include "sftbench/base/deep.h"\n#include <vector>\nstruct Engine;\n' >"$include/engine/engine.h"
printf '#include "sftbench/base/error.h"\nstruct Parquet;\n' >"$include/data/parquet_library.h"
printf '#include "sftbench/base/error.h"\n#include "sftbench/engine/engine.h"\nint deep();\n' >"$include/base/deep.h"
printf 'struct Error { int line; };  // [a] list; of words\n' >"$include/base/error.h"
printf 'int other();\n' >"$include/base/other.h"

digests() {
  "$cmake" -DINCLUDE="$folder/include" -DOUTPUT="$folder/out.h" -P "$source/src/interfaces.cmake"
  sed -n "s/.*SFTBENCH_$1_INTERFACE \"\([0-9a-f]\{12\}\)\"/\1/p" "$folder/out.h"
}
fail() {
  echo "interfaces_test: $1" >&2
  exit 1
}

engine=$(digests ENGINE)
parquet=$(digests PARQUET)
[ -n "$engine" ] && [ -n "$parquet" ] && [ "$engine" != "$parquet" ] || fail "no two digests"
[ "$(digests ENGINE)" = "$engine" ] || fail "the same headers give another digest"

before=$(stat -c %y "$folder/out.h")
printf 'int other(int);\n' >"$include/base/other.h"
digests ENGINE >/dev/null
[ "$(stat -c %y "$folder/out.h")" = "$before" ] || fail "a header of no interface rebuilds both sides"
printf 'struct Error { int line; };   // another comment\n' >"$include/base/error.h"
[ "$(digests ENGINE)" = "$engine" ] || fail "a comment counts"

printf 'struct Error { long line; };\n' >"$include/base/error.h"
[ "$(digests ENGINE)" != "$engine" ] || fail "a header that a header includes does not count for the engine"
[ "$(digests PARQUET)" != "$parquet" ] || fail "a header that a header includes does not count for Parquet"
parquet=$(digests PARQUET)
printf 'int deep(int);\n#include "sftbench/base/error.h"\n' >"$include/base/deep.h"
[ "$(digests PARQUET)" = "$parquet" ] || fail "a header of the engine counts for Parquet"
echo "interfaces_test: fine"
