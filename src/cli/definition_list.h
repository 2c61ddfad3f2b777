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

// Marks the spaces of a command, so that definition_list() leaves it on one line and people can
// paste it.
std::string on_one_line(std::string command);

// Turns marked spaces into spaces. definition_list() does so itself.
std::string with_spaces(std::string text);

// `text` cut at spaces into lines of at most `columns`.
std::vector<std::string> wrap(const std::string& text, size_t columns);

}  // namespace sftbench
