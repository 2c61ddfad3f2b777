#include "sftbench/base/terminal_text.h"

#include <array>
#include <cstdint>
#include <cstdio>

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

}  // namespace

bool is_terminal_line(std::string_view text) {
  while (!text.empty()) {
    const Character character = first_character(text);
    if (!character.valid || is_obeyed(character.code)) return false;
    text.remove_prefix(character.bytes);
  }
  return true;
}

std::string terminal_text(std::string_view text) {
  return is_terminal_line(text) ? std::string(text) : escaped(text, false);
}

std::string terminal_line(std::string_view text) {
  return is_terminal_line(text) ? std::string(text) : escaped(text, true);
}

}  // namespace sftbench
