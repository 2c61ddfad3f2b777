// JSON as text, and as what one process of this program hands to another. Text that came from
// outside (a path, an environment variable, a line of a log or of a dataset) need not be UTF-8, and
// JSON must be: the library's own dump() throws there. tests/json_text_test.sh keeps everything
// else from calling it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sftbench/base/json.h"

namespace sftbench {

// In one line, or with `indent` spaces for each level. Bytes that are not UTF-8 become U+FFFD.
std::string json_text(const Json& value, int indent = -1);

// In one line of ASCII: escapes stand for all other characters, as in Python's json.dumps().
// Nothing where a text is not UTF-8.
std::optional<std::string> ascii_json(const Json& value);

// Keeps every byte, so that a path names the same file in the process that reads it. Read back by
// unpacked_json().
std::string packed_json(const Json& value);

// InputError names `origin`, a path or what stands for one.
Json unpacked_json(std::string_view packed, const std::string& origin);

}  // namespace sftbench
