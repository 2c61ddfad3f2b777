#!/usr/bin/env bash
# JSON becomes text in base/json_text.h alone: the library's dump() throws where a text is not UTF-8, and such text comes
# from paths, logs and datasets. A call that replaces such bytes itself, because it wants another form, may stand.
set -euo pipefail
cd "${1:?usage: json_text_test.sh SOURCE_DIR}"

found=$(grep -rnE '\.dump\(' src include | grep -v -e 'error_handler_t::replace' -e '^src/base/json_text.cpp:' || true)
[ -z "$found" ] && exit 0
echo "json_text() of sftbench/base/json_text.h, please:"
echo "$found"
exit 1
