#include <algorithm>
#include <charconv>
#include <optional>

#include "sftbench/catalog/experiment.h"

namespace sftbench {
namespace {

// A comment of Jinja, which is what such texts are.
constexpr std::string_view kOneLine = "{#- escaped -#}";

void append_utf8(std::string& text, uint32_t code) {
  if (code < 0x80) {
    text += static_cast<char>(code);
  } else if (code < 0x800) {
    text += static_cast<char>(0xC0 | (code >> 6));
    text += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    text += static_cast<char>(0xE0 | (code >> 12));
    text += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
    text += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// The code of \x41 or \u0041 behind its letter; nothing where the digits are missing, or are half
// of a pair.
std::optional<uint32_t> escaped_code(std::string_view digits, size_t count) {
  if (digits.size() < count) return std::nullopt;
  uint32_t code = 0;
  const char* end = digits.data() + count;
  const auto [stop, error] = std::from_chars(digits.data(), end, code, 16);
  if (error != std::errc() || stop != end || (code >= 0xD800 && code < 0xE000)) return std::nullopt;
  return code;
}

}  // namespace

std::string escaped_text(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '\n':
        escaped += "\\n";
        break;
      case '\t':
        escaped += "\\t";
        break;
      case '\r':
        escaped += "\\r";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string unescaped_text(std::string_view text) {
  constexpr std::string_view kLetters = "ntr\\'\"abfv0", kMeanings("\n\t\r\\'\"\a\b\f\v\0", 11);
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      plain += text[i];
      continue;
    }
    const char letter = text[i + 1];
    const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 0;
    const size_t known = kLetters.find(letter);
    if (known != std::string_view::npos) {
      plain += kMeanings[known];
      ++i;
    } else if (const auto code =
                   digits > 0 ? escaped_code(text.substr(i + 2), digits) : std::nullopt) {
      append_utf8(plain, *code);
      i += 1 + digits;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

std::string one_line_text(std::string_view text) {
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7F; };
  if (std::none_of(text.begin(), text.end(), is_control)) return std::string(text);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string line(kOneLine);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\\') {
      line += "\\\\";
    } else if (c == '\n') {
      line += "\\n";
    } else if (is_control(byte)) {
      line += {'\\', 'x', kHex[byte >> 4], kHex[byte & 0xF]};
    } else {
      line += c;
    }
  }
  return line;
}

std::string whole_text(std::string_view text) {
  return text.starts_with(kOneLine) ? unescaped_text(text.substr(kOneLine.size()))
                                    : std::string(text);
}

}  // namespace sftbench
