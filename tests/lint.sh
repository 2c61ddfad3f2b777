#!/usr/bin/env bash
# What can be said about a change without building it: format, shell scripts, links of the documents.
# usage: lint.sh
set -euo pipefail
cd "$(dirname "$0")/.."
command -v shellcheck >/dev/null ||
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends shellcheck python3 >/dev/null; }
bash tests/format.sh
git ls-files -z '*.sh' .ci/run | xargs -0 shellcheck --severity warning
python3 tests/docs_links_test.py .
