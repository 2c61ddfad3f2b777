#!/usr/bin/env bash
# Makes config/residuals.json, on which intervals rest, of the tables in this folder. Run it after a change of the cost
# model or of a constant. usage: residuals.sh SFTBENCH, of a build with benchmarks (preset bench)
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
sftbench=$(realpath "$1")
folder=$(mktemp -d)
export LC_ALL=C
trap 'rm -rf "$folder"' EXIT
bash "$here/import.sh" "$sftbench" "$folder" >"$folder/import.txt"
"$(dirname "$sftbench")/make_residuals" "$folder/models.yaml" "$folder"/evidence/*.jsonl >"$folder/residuals.json"
cp "$folder/residuals.json" "$here/../../config/residuals.json"
