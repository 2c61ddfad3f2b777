#include "tokenizer/decode.h"

#include <charconv>
#include <map>
#include <unordered_map>

#include "tokenizer/normalizer.h"
#include "tokenizer/unicode.h"

namespace sftbench {
namespace {

constexpr std::string_view kWordMark = "\xE2\x96\x81";  // U+2581, before words

std::unordered_map<uint32_t, char> bytes_by_char() {
  std::unordered_map<uint32_t, char> bytes;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string& text = byte_level_char(static_cast<unsigned char>(byte));
    bytes[decode_utf8(text.data()).code_point] = static_cast<char>(byte);
  }
  return bytes;
}

// A token whose characters all stand for bytes, or else itself.
void append_bytes(std::string_view token, std::string& bytes) {
  static const std::unordered_map<uint32_t, char> kBytes = bytes_by_char();
  std::string of_token;
  for (size_t i = 0; i < token.size();) {
    const DecodedChar at = decode_utf8(token.data() + i);
    const auto byte = kBytes.find(at.code_point);
    if (byte == kBytes.end()) {
      bytes += token;
      return;
    }
    of_token += byte->second;
    i += at.size_bytes;
  }
  bytes += of_token;
}

// A token of text, in which marks are spaces, or <0x00> to <0xFF>.
void append_text(std::string_view token, std::string& bytes) {
  unsigned byte = 0;
  if (token.size() == 6 && token.starts_with("<0x") && token.back() == '>' &&
      std::from_chars(token.data() + 3, token.data() + 5, byte, 16).ptr == token.data() + 5) {
    bytes += static_cast<char>(byte);
    return;
  }
  for (size_t i = 0; i < token.size();) {
    const bool mark = token.substr(i).starts_with(kWordMark);
    bytes += mark ? ' ' : token[i];
    i += mark ? kWordMark.size() : 1;
  }
}

}  // namespace

std::string decode(const std::vector<int32_t>& ids, const TokenTable& vocabulary,
                   const std::map<int32_t, AddedToken>& added) {
  const auto tokens = vocabulary.texts_of(ids);
  const bool of_bytes =
      vocabulary.find(byte_level_char(' ')) >= 0 && vocabulary.find(kWordMark) < 0;
  std::string bytes;
  for (const int32_t id : ids) {
    const auto whole = added.find(id);
    const auto own = tokens.find(id);
    if (whole == added.end() && own == tokens.end()) continue;
    const std::string_view token = whole != added.end() ? whole->second.content : own->second;
    (of_bytes ? append_bytes : append_text)(token, bytes);
  }
  std::string text;
  append_sanitized(text, bytes);
  return text;
}

}  // namespace sftbench
