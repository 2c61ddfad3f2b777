#include "sftbench/base/terminal_text.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace sftbench {
namespace {

struct Character {
  size_t bytes = 1;
  uint32_t code = 0;
  bool valid = false;  // well-formed UTF-8
};

// REQUIRES: `text` is not empty. Overlong forms, surrogates and codes beyond U+10FFFF are invalid.
Character first_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, lead, true};
  const size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || bytes > text.size()) return {};
  uint32_t code = lead & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  constexpr std::array<uint32_t, 5> kSmallest = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kSmallest[bytes] || surrogate || code > 0x10ffff) return {};
  return {bytes, code, true};
}

// C0, DEL and C1, and what Unicode has to break, reorder and direct lines.
bool is_obeyed(uint32_t code) {
  const auto within = [code](uint32_t first, uint32_t last) {
    return code >= first && code <= last;
  };
  return code < 0x20 || within(0x7f, 0x9f) || code == 0x61c || within(0x200e, 0x200f) ||
         within(0x2028, 0x202e) || within(0x2066, 0x2069);
}

void append_spelled(std::string& text, const Character& character, unsigned char lead) {
  std::array<char, 12> spelled{};
  const char* format = character.valid && character.code > 0xff ? "\\u%04x" : "\\x%02x";
  const unsigned value = character.valid ? character.code : lead;
  std::snprintf(spelled.data(), spelled.size(), format, value);
  text += spelled.data();
}

std::string escaped(std::string_view text, bool one_line) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const Character character = first_character(text);
    const char lead = text.front();
    if (lead == '\n' || lead == '\t') {
      if (one_line) shown += lead == '\n' ? "\\n" : "\\t";
      if (!one_line) shown += lead;
    } else if (!character.valid || is_obeyed(character.code)) {
      append_spelled(shown, character, static_cast<unsigned char>(lead));
    } else {
      shown += text.substr(0, character.bytes);
    }
    text.remove_prefix(character.bytes);
  }
  return shown;
}

// Characters, not bytes.
size_t width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

void wrap_line(std::string_view line, size_t columns, size_t used, std::string& result) {
  constexpr size_t kMoreIndent = 2;
  if (used + width(line) <= columns) {
    result += line;
    return;
  }
  const size_t indent = std::min(line.find_first_not_of(' '), line.size());
  result += line.substr(0, indent);
  line.remove_prefix(indent);
  size_t column = used + indent;
  for (bool first = true; !line.empty(); first = false) {
    const size_t spaces = std::min(line.find_first_not_of(' '), line.size());
    const size_t end = std::min(line.find(' ', spaces), line.size());
    const std::string_view word = line.substr(spaces, end - spaces);
    if (!first && column + spaces + width(word) > columns) {
      result += '\n' + std::string(indent + kMoreIndent, ' ');
      column = indent + kMoreIndent;
    } else {
      result.append(spaces, ' ');
      column += spaces;
    }
    result += word;
    column += width(word);
    line.remove_prefix(end);
  }
}

}  // namespace

bool is_terminal_line(std::string_view text) {
  while (!text.empty()) {
    const Character character = first_character(text);
    if (!character.valid || is_obeyed(character.code)) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

size_t terminal_columns(int fd) {
  if (::isatty(fd) == 0) return 0;
  if (const char* text = std::getenv("COLUMNS")) {
    if (const long columns = std::strtol(text, nullptr, 10); columns > 0) {
      return static_cast<size_t>(columns);
    }
  }
  winsize size = {};
  return ::ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

std::string cut_to(std::string_view line, size_t columns) {
  if (columns == 0 || width(line) < columns) return std::string(line);
  size_t end = 0;
  for (size_t shown = 0; end < line.size(); ++end) {
    const bool begins_character = (line[end] & 0xC0) != 0x80;
    if (begins_character && ++shown >= columns) break;
  }
  return std::string(line.substr(0, end));
}

std::string wrapped(std::string_view text, size_t columns, size_t used) {
  if (columns == 0) return std::string(text);
  std::string result;
  while (true) {
    const size_t end = text.find('\n');
    wrap_line(text.substr(0, end), columns, used, result);
    if (end == std::string_view::npos) return result;
    result += '\n';
    text.remove_prefix(end + 1);
    used = 0;
  }
}

std::string terminal_text(std::string_view text) {
  return is_terminal_line(text) ? std::string(text) : escaped(text, false);
}

std::string terminal_line(std::string_view text) {
  return is_terminal_line(text) ? std::string(text) : escaped(text, true);
}

}  // namespace sftbench
