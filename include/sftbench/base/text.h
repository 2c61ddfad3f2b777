// Small text helpers: nearest spelling for error messages, joining, quoting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sftbench {

// The candidate with the smallest edit distance to `word`, case ignored; empty when none is near
// (more than a third of the longer word, but at least two edits, are allowed).
std::string nearest_spelling(std::string_view word, const std::vector<std::string>& candidates);

// "a, b, c"
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");

// One word, in single quotes where a shell would otherwise see more than a word in it.
std::string shell_quoted(std::string_view word);

}  // namespace sftbench
