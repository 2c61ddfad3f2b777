#!/usr/bin/env bash
# A sweep into a file system that fills up: it stops and says so, every result that was written is whole, and with
# more room the same command goes on. usage: tests/sweep/disk_full.sh SFTBENCH
# Exit status 77: not possible here (mounting is not allowed).
set -euo pipefail
program=${1:?usage: disk_full.sh SFTBENCH}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-/usr/bin/python3}
if [[ ${IN_NAMESPACE:-} != yes ]]; then
  unshare --mount true 2>/dev/null || { echo "skipped: this user may not mount"; exit 77; }
  IN_NAMESPACE=yes exec unshare --mount "$0" "$@"
fi
work=$(mktemp -d)
mkdir "$work/small"
mount -t tmpfs -o size=2m tmpfs "$work/small" || { echo "skipped: tmpfs cannot be mounted"; exit 77; }
trap 'umount "$work/small"; rm -rf "$work"' EXIT
cat >"$work/space.yaml" <<YAML
experiments:
- {experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: SFTTrainer}
entitySpace:
- {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}
- {identifier: number_gpus, propertyDomain: {values: [1]}}
- {identifier: gpu_model, propertyDomain: {values: [NVIDIA-H100-PCIe]}}
- {identifier: model_max_length, propertyDomain: {domainRange: [64, 464], interval: 1}}
- {identifier: batch_size, propertyDomain: {values: [2]}}
YAML
sweep=("$program" sweep "$work/space.yaml" -o "$work/small/results" --backend simulate --simulate steps=3 --jobs auto)

status=0
"${sweep[@]}" >/dev/null 2>"$work/log" || status=$?
((status == 4)) || { echo "exit status $status, not 4"; tail -3 "$work/log"; exit 1; }
grep -q "stopped: .*No space left on device" "$work/log" || { tail -3 "$work/log"; exit 1; }
"$python" "$here/settled.py" "$work/small/results" "$work/settled.json"
finished=$(find "$work/small/results" -name '*.json' | wc -l)
((finished > 20 && finished < 400)) || { echo "$finished results"; exit 1; }

mount -o remount,size=16m "$work/small"
"${sweep[@]}" >/dev/null 2>"$work/log" || { tail -3 "$work/log"; exit 1; }
"$python" "$here/settled.py" "$work/small/results" "$work/settled.json" --cells 400
echo "the disk was full after $finished results; all 400 are there"
