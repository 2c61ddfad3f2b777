// JSON values: one alias for the whole program, insertion-ordered so that files read as they were written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace sftbench {

using Json = nlohmann::ordered_json;

// Parses `text`. InputError names `origin` (a path), the line and what was found there.
Json parse_json(std::string_view text, const std::string& origin);

// Reads and parses a file. InputError when it cannot be read or parsed.
Json read_json_file(const std::string& path);

}  // namespace sftbench
