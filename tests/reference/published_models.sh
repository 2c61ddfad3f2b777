#!/usr/bin/env bash
# Packs published_models.tar.xz: files of two published models, without weights, and a text that was tokenized with one of
# them. They are of fms-hf-tuning's tests/artifacts (Apache-2.0, LICENSE.fms-hf-tuning): tiny-models/tiny-granite-vision,
# maykeye/tinyllama-v0, testdata. Tests read them from the build folder, where CMake unpacks them.
# usage: tests/reference/published_models.sh FOLDER
set -euo pipefail
out=$(realpath "$(dirname "$0")")/published_models.tar.xz
cd "${1:?usage: published_models.sh FOLDER}"
XZ_OPT=-9e tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX -cJf "$out" \
  LICENSE.fms-hf-tuning tiny-granite-vision tinyllama-v0 twitter_complaints_tokenized_with_maykeye_tinyllama_v0.jsonl
