// Small text helpers: nearest spelling for error messages, joining, quoting.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace sftbench {

// The candidate with the smallest edit distance to `word`, case ignored. Up to a third of the longer
// word may differ, and at least two edits. Where none is as near, the shortest candidate that begins
// with `word`. Empty when there is none of these either.
std::string nearest_spelling(std::string_view word, const std::vector<std::string>& candidates);

// "a, b, c"
std::string join(const std::vector<std::string>& parts, std::string_view separator = ", ");

// Without the spaces, tabs and line ends around it.
std::string_view trimmed(std::string_view text);

// One word, in single quotes where a shell would otherwise see more than a word in it.
std::string shell_quoted(std::string_view word);

}  // namespace sftbench
