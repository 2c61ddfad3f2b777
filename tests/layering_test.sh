#!/usr/bin/env bash
# No include runs upward: a file of a module includes only headers of its own module and of the modules that
# src/CMakeLists.txt names in its DEPENDS, directly or through others. Headers beside the sources are a module's own:
# no other module includes them. A room needs no room that comes after it in that file. Prints what does not keep to this.
set -euo pipefail
cd "${1:?usage: layering_test.sh SOURCE_DIR}"

declare -A depends=() folder=() floor=()  # floor: of a room, from below
while read -r place line; do
  depends[${place##*/}]=$(sed -n 's/.*DEPENDS \([a-z ]*\).*/\1/p' <<<"$line")
  folder[${place##*/}]=$place
  floor[${place%%/*}]=${floor[${place%%/*}]:-${#floor[@]}}
done < <(sed -n 's/^sftbench_module(\([a-z/]*\)\(.*\))$/\1 \2/p' src/CMakeLists.txt)
[ "${#depends[@]}" -ge 10 ] || { echo "src/CMakeLists.txt: found only ${#depends[@]} modules"; exit 1; }

# Everything below a module, itself included.
declare -A found
below() {
  [ -n "${found[$1]:-}" ] && return
  found[$1]=1
  local module
  for module in ${depends[$1]:-}; do below "$module"; done
}

# The engine's face is torch-free and known to those who load it, and events and jobs pass through it.
allowed_extra() {
  case $1 in cluster | launch | simulate | cli) echo "engine/engine.h" ;; esac
}

status=0
for module in "${!depends[@]}"; do
  room=${folder[$module]%%/*}
  for other in ${depends[$module]}; do
    other=${folder[$other]%%/*}
    [ "${floor[$other]}" -le "${floor[$room]}" ] || { echo "room '$room' may not need '$other' ($module)"; status=1; }
  done
  found=()
  below "$module"
  # A room's own files are a module, its folders are others.
  files=$(find "src/${folder[$module]}" "include/sftbench/$module" -name '*.h' -o -name '*.cpp' -o -name '*.cu' 2>/dev/null || true)
  for other in "${folder[@]}"; do
    [[ $other != "${folder[$module]}"/* ]] || files=$(grep -v "^src/$other/" <<<"$files")
  done
  while IFS=: read -r file line text; do
    header=${text#*\"sftbench/} header=${header%%\"*}
    [ -n "${found[${header%%/*}]:-}" ] && continue
    [[ " $(allowed_extra "$module") " == *" $header "* ]] && continue
    echo "$file:$line: module '$module' may not include sftbench/$header"
    status=1
  done < <(xargs grep -HnE '#include "sftbench/' <<<"$files" || true)
  while IFS=: read -r file line text; do
    header=${text#*\"} header=${header%%\"*}
    [[ ${header%%/*} != "$module" && -n ${depends[${header%%/*}]+known} ]] || continue
    echo "$file:$line: module '$module' may not include the private header $header"
    status=1
  done < <(xargs grep -HnE '#include "[a-z]+/' <<<"$files" | grep -v '#include "sftbench/' || true)
done
exit $status
