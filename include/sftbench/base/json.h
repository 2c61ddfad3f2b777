// JSON values: one alias for the whole program, insertion-ordered so that files read as they were
// written.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "sftbench/base/error.h"

namespace sftbench {

using Json = nlohmann::ordered_json;

// Parses `text`. InputError names `origin` (a path), the line and what was found there.
Json parse_json(std::string_view text, const std::string& origin);

// What a parser of the library complains about, without the library's own prefix, e.g. "syntax
// error while parsing object - unexpected string literal; expected '}'".
std::string json_problem(const Json::exception& error);

// That, for the text whose byte `position` (1-based) it stumbles over: file, line, column.
Diagnostic json_diagnostic(const std::string& origin, std::string_view text, size_t position,
                           const Json::exception& error);

// Reads and parses a file. InputError when it cannot be read or parsed.
Json read_json_file(const std::string& path);

// The whole number at `key` of an object, which may hold anything. InputError naming `origin` (a
// path) and the key when there is none from `least` to `most`. JSON's own get() makes some number
// of 2^70, 1.5 or null.
int64_t whole_number_at(const Json& object, const std::string& key, int64_t least, int64_t most,
                        const std::string& origin);

}  // namespace sftbench
