#!/usr/bin/env bash
# No include runs upward: a file of a module includes only headers of its own module and of the modules that
# src/CMakeLists.txt names in its DEPENDS, directly or through others. Headers beside the sources are a module's own:
# no other module includes them. Prints every include that does not keep to this.
set -euo pipefail
cd "${1:?usage: layering_test.sh SOURCE_DIR}"

declare -A depends
while read -r module line; do
  depends[$module]=$(sed -n 's/.*DEPENDS \([a-z ]*\).*/\1/p' <<<"$line")
done < <(sed -n 's/^sftbench_module(\([a-z]*\)\(.*\))$/\1 \2/p' src/CMakeLists.txt)
[ "${#depends[@]}" -ge 10 ] || { echo "src/CMakeLists.txt: found only ${#depends[@]} modules"; exit 1; }

# Everything below a module, itself included.
below() {
  echo "$1"
  local module
  for module in ${depends[$1]:-}; do below "$module"; done
}

# The engine's face is torch-free and known to those who load it, and events and jobs pass through it.
allowed_extra() {
  case $1 in cluster | launch | simulate | cli) echo "engine/engine.h" ;; esac
}

status=0
for module in "${!depends[@]}"; do
  allowed=" $(below "$module" | sort -u | tr '\n' ' ')"
  folders=()
  for folder in "src/$module" "include/sftbench/$module"; do [ -d "$folder" ] && folders+=("$folder"); done
  [ ${#folders[@]} -gt 0 ] || continue
  while IFS=: read -r file line text; do
    header=${text#*\"sftbench/} header=${header%%\"*}
    [[ $allowed == *" ${header%%/*} "* ]] && continue
    [[ " $(allowed_extra "$module") " == *" $header "* ]] && continue
    echo "$file:$line: module '$module' may not include sftbench/$header"
    status=1
  done < <(grep -rnE '#include "sftbench/' "${folders[@]}" || true)
  while IFS=: read -r file line text; do
    header=${text#*\"} header=${header%%\"*}
    [[ ${header%%/*} != "$module" && -n ${depends[${header%%/*}]+known} ]] || continue
    echo "$file:$line: module '$module' may not include the private header $header"
    status=1
  done < <(grep -rnE '#include "[a-z]+/' "${folders[@]}" | grep -v '#include "sftbench/' || true)
done
exit $status
