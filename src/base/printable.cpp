#include "sftbench/base/printable.h"

#include <algorithm>
#include <cstdint>

namespace sftbench {
namespace {

// The bytes of the character of UTF-8 that `text` begins with, and its number; 0 bytes: none.
struct Character {
  size_t bytes = 0;
  uint32_t number = 0;
};

Character first_character(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  if (byte(0) < 0x80) return {1, byte(0)};
  const size_t bytes = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < bytes) return {};
  uint32_t number = byte(0) & (0x7fu >> bytes);
  for (size_t at = 1; at < bytes; ++at) {
    if ((byte(at) & 0xc0) != 0x80) return {};
    number = number << 6 | (byte(at) & 0x3fu);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = number >= 0xd800 && number <= 0xdfff;
  return number < kLeast[bytes] || number > 0x10ffff || surrogate ? Character{}
                                                                  : Character{bytes, number};
}

bool controls_a_terminal(uint32_t character) {
  return character < 0x20 || (character >= 0x7f && character < 0xa0) ||
         (character >= 0x200e && character <= 0x200f) ||
         (character >= 0x2028 && character <= 0x202e) ||
         (character >= 0x2066 && character <= 0x2069);
}

std::string printable(std::string_view text, std::string_view kept) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string result;
  while (!text.empty()) {
    const Character character = first_character(text);
    const size_t bytes = std::max<size_t>(1, character.bytes);
    if (kept.find(text.front()) != std::string_view::npos ||
        (character.bytes > 0 && !controls_a_terminal(character.number))) {
      result += text.substr(0, bytes);
    } else {
      for (const char byte : text.substr(0, bytes)) {
        result += "\\x";
        result += kDigits[static_cast<unsigned char>(byte) >> 4];
        result += kDigits[static_cast<unsigned char>(byte) & 15];
      }
    }
    text.remove_prefix(bytes);
  }
  return result;
}

}  // namespace

std::string printable_line(std::string_view text) {
  return printable(text, "");
}

std::string printable_text(std::string_view text) {
  return printable(text, "\n\t");
}

}  // namespace sftbench
