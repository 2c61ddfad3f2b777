#include "sftbench/base/command_text.h"

#include <algorithm>
#include <cstdlib>

#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

std::string variable_of(size_t word) {
  return "SFTBENCH_HIDDEN_WORD_" + std::to_string(word);
}

}  // namespace

size_t end_of_word(std::string_view line, size_t at, std::string& word) {
  char quote = 0;
  for (; at < line.size(); ++at) {
    const char c = line[at];
    if (quote == 0 && kSpaces.find(c) != std::string_view::npos) break;
    if (quote == 0 && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == quote) {
      quote = 0;
    } else if (c == '\\' && quote != '\'' && at + 1 < line.size()) {
      word += line[++at];
    } else {
      word += c;
    }
  }
  return at;
}

std::string kept_command(const std::vector<std::string>& words) {
  std::string command;
  for (const std::string& word : words) {
    command += (command.empty() ? "" : " ") + shell_quoted(without_secrets(word));
  }
  return command;
}

std::string masked_command(std::string_view line) {
  if (line.find("://") == std::string_view::npos) return std::string(line);
  std::string masked;
  for (size_t begin = 0; begin < line.size();) {
    std::string word;
    const size_t end = end_of_word(line, begin, word);
    const std::string shown = without_secrets(word);
    masked += shown == word ? line.substr(begin, end - begin) : shell_quoted(shown);
    begin = std::min(line.find_first_not_of(kSpaces, end), line.size());
    masked += line.substr(end, begin - end);
  }
  return masked;
}

void hide_secrets(std::vector<std::string>& words,
                  std::vector<std::pair<std::string, std::string>>& environment) {
  for (size_t i = 0; i < words.size(); ++i) {
    std::string shown = without_secrets(words[i]);
    if (shown == words[i]) continue;
    environment.emplace_back(variable_of(i), words[i]);
    words[i] = std::move(shown);
  }
}

void reveal_secrets(std::vector<std::string>& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string variable = variable_of(i);
    const char* hidden = std::getenv(variable.c_str());
    if (hidden == nullptr) continue;
    if (without_secrets(hidden) == words[i]) words[i] = hidden;
    ::unsetenv(variable.c_str());
  }
}

}  // namespace sftbench
