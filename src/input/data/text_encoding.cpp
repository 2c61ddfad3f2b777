#include "data/text_encoding.h"

#include <utf8proc.h>

#include <array>
#include <cstdio>
#include <utility>

namespace sftbench {
namespace {

constexpr size_t kBytesThatTell = 4096;
constexpr size_t kFewestZeros = 32;  // one of so many bytes, or it is damage

// A mark, or the zeros that such text has within characters of ASCII, and UTF-8 has nowhere. Empty:
// none.
std::string wide_encoding(std::string_view begin) {
  using std::string_view_literals::operator""sv;
  for (const auto& [mark, name] : {std::pair("\xff\xfe\0\0"sv, "UTF-32"),
                                   {"\0\0\xfe\xff"sv, "UTF-32"},
                                   {"\xff\xfe"sv, "UTF-16"},
                                   {"\xfe\xff"sv, "UTF-16"}}) {
    if (begin.starts_with(mark)) return name;
  }
  const std::string_view text = begin.substr(0, kBytesThatTell);
  std::array<bool, 4> zero{};  // by the place within four bytes
  size_t zeros = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '\0') continue;
    zero[at % zero.size()] = true;
    ++zeros;
  }
  if (zeros == 0 || zeros * kFewestZeros < text.size()) return {};
  const auto are = [&zero](bool a, bool b, bool c, bool d) {
    return zero == std::array<bool, 4>{a, b, c, d};
  };
  if (are(false, true, true, true)) return "UTF-32LE";
  if (are(true, true, true, false)) return "UTF-32BE";
  if (!zero[0] && !zero[2]) return "UTF-16LE";
  if (!zero[1] && !zero[3]) return "UTF-16BE";
  return {};
}

}  // namespace

void refuse_wide_text(std::string_view begin, const std::string& path) {
  const std::string encoding = wide_encoding(begin);
  if (encoding.empty()) return;
  throw InputError({finding(path, {}, "the file is " + encoding,
                            "UTF-8: iconv -f " + encoding + " -t UTF-8 FILE makes it")});
}

bool is_not_utf8(std::string_view text, Diagnostic& error, const char* of) {
  const auto* bytes = reinterpret_cast<const utf8proc_uint8_t*>(text.data());
  const auto size = static_cast<utf8proc_ssize_t>(text.size());
  utf8proc_ssize_t at = 0;
  while (at < size) {
    utf8proc_int32_t code_point = 0;
    const utf8proc_ssize_t read = utf8proc_iterate(bytes + at, size - at, &code_point);
    if (read <= 0) break;
    at += read;
  }
  if (at == size) return false;
  std::array<char, 8> byte{};
  std::snprintf(byte.data(), byte.size(), "0x%02X", bytes[at]);
  error.message = std::string("byte ") + byte.data() + " at column " + std::to_string(at + 1) + of +
                  " is not UTF-8";
  error.expected =
      "UTF-8: iconv -f WINDOWS-1252 -t UTF-8 FILE makes it of Windows-1252 and Latin-1";
  return true;
}

}  // namespace sftbench
