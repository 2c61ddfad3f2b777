// "term   text" lines for people: terms in one column, texts wrapped in the other.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace sftbench {

using Definitions = std::vector<std::pair<std::string, std::string>>;

// Each line starts with two spaces and ends with a line end; lines are at most 100 columns wide
// unless a single word is longer. A line end in a text starts a new line in its column.
std::string definition_list(const Definitions& definitions);

// A command, which stays on one line of a definition list, so that people can paste it.
std::string on_one_line(std::string command);

// Its spaces are spaces again.
std::string with_spaces(std::string text);

// `text` cut at spaces into lines of at most `columns`.
std::vector<std::string> wrap(const std::string& text, size_t columns);

}  // namespace sftbench
