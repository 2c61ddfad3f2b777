#include "results/cell_escape.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>

#include "sftbench/base/terminal_text.h"

namespace sftbench {
namespace {

bool is_number(std::string_view text) {
  if (text.size() > 1 && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
  const bool digit_first =
      !text.empty() && (std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.');
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return digit_first && error == std::errc() && stopped == end;
}

bool begins_formula(std::string_view text) {
  constexpr std::array<std::string_view, 4> kFullWidth = {"\uff1d", "\uff0b", "\uff0d", "\uff20"};
  if (text.empty()) return false;
  const bool full_width =
      std::any_of(kFullWidth.begin(), kFullWidth.end(),
                  [&](std::string_view sign) { return text.substr(0, sign.size()) == sign; });
  if (!full_width && std::string_view("=+-@\t\n").find(text[0]) == std::string_view::npos)
    return false;
  return !is_number(text);
}

// Within a word an underscore is no markup, and names are full of them.
bool is_markup(std::string_view text, size_t i) {
  const auto in_word = [&](size_t k) {
    return k < text.size() && std::isalnum(static_cast<unsigned char>(text[k])) != 0;
  };
  if (text[i] == '_') return i == 0 || !in_word(i - 1) || !in_word(i + 1);
  return std::string_view("\\|`[]<>*~&$").find(text[i]) != std::string_view::npos;
}

}  // namespace

void append_csv_field(std::string& line, std::string_view text) {
  std::string escaped;
  if (!is_terminal_line(text)) text = escaped = terminal_text(text);
  const bool formula = begins_formula(text);
  if (!formula && text.find_first_of(",\"\r\n") == std::string_view::npos) {
    line += text;
    return;
  }
  line += formula ? "\"'" : "\"";
  for (const char c : text) line.append(c == '"' ? 2 : 1, c);
  line += '"';
}

std::string markdown_cell(std::string_view text) {
  const std::string line = terminal_line(text);
  std::string cell;
  for (size_t i = 0; i < line.size(); ++i) {
    if (is_markup(line, i)) cell += '\\';
    cell += line[i];
  }
  return cell;
}

}  // namespace sftbench
