#!/usr/bin/env bash
# Makes config/residuals.json, on which intervals rest, of the tables in this folder. Run it after a change of the cost
# model or of a constant. usage: residuals.sh SFTBENCH
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
sftbench=$(realpath "$1")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bash "$here/import.sh" "$sftbench" "$folder" >"$folder/import.txt"
"$sftbench" predict --score "$folder" --config "$folder/models.yaml" --save-residuals "$here/../../config/residuals.json"
