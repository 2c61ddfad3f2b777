#include "cli/definition_list.h"

#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "sftbench/base/terminal_text.h"

namespace sftbench {
namespace {

constexpr char kSpaceOfCommand = '\x1f';

}  // namespace

std::string on_one_line(std::string command) {
  std::replace(command.begin(), command.end(), ' ', kSpaceOfCommand);
  return command;
}

std::string with_spaces(std::string text) {
  std::replace(text.begin(), text.end(), kSpaceOfCommand, ' ');
  return text;
}

std::vector<std::string> wrap(const std::string& text, size_t columns) {
  std::vector<std::string> lines;
  std::istringstream paragraphs(text);
  std::string paragraph;
  while (std::getline(paragraphs, paragraph)) {
    std::istringstream words(paragraph);
    std::string word;
    std::string line;
    while (words >> word) {
      if (!line.empty() && line.size() + 1 + word.size() > columns) {
        lines.push_back(line);
        line.clear();
      }
      line += (line.empty() ? "" : " ") + word;
    }
    lines.push_back(line);
  }
  if (lines.empty()) lines.emplace_back();
  return lines;
}

std::string definition_list(const Definitions& definitions) {
  constexpr size_t kMostColumns = 100;
  constexpr size_t kFewestColumns = 60;
  const size_t of_terminal = terminal_columns(STDOUT_FILENO);
  const size_t all_columns =
      of_terminal == 0 ? kMostColumns : std::clamp(of_terminal, kFewestColumns, kMostColumns);
  constexpr size_t kLongestTerm = 36;
  constexpr size_t kIndent = 2;
  size_t terms = 0;
  for (const auto& definition : definitions) {
    if (definition.first.size() <= kLongestTerm) terms = std::max(terms, definition.first.size());
  }
  const size_t column = kIndent + terms + 2;
  std::string text;
  for (const auto& [term, meaning] : definitions) {
    std::string line = std::string(kIndent, ' ') + term;
    for (const std::string& part : wrap(meaning, all_columns - column)) {
      if (line.size() + 2 > column) {  // a long term has a line of its own
        text += line + "\n";
        line.clear();
      }
      line.resize(column, ' ');
      text += line + part + "\n";
      line.clear();
    }
  }
  return with_spaces(std::move(text));
}

}  // namespace sftbench
