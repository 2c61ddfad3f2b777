// The test strings of tests/reference/tokenizer.py (class Strings), drawn from the same random
// stream.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/json.h"
#include "tokenizer/unicode.h"

namespace sftbench {

// CRC-32 of ISO 3309, as Python's zlib.crc32.
inline uint32_t crc32(std::string_view bytes, uint32_t crc = 0) {
  static const std::vector<uint32_t> table = [] {
    std::vector<uint32_t> entries(256);
    for (uint32_t i = 0; i < 256; ++i) {
      entries[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        entries[i] = entries[i] >> 1 ^ (entries[i] & 1 ? 0xEDB88320U : 0);
    }
    return entries;
  }();
  crc = ~crc;
  for (const char c : bytes) crc = crc >> 8 ^ table[(crc ^ static_cast<unsigned char>(c)) & 0xFF];
  return ~crc;
}

class TestStrings {
 public:
  TestStrings()
      : parts_(read_json_file(std::string(SFTBENCH_TEST_DATA) + "/tokenizers/parts.json")) {}

  // Calls in order 0, 1, 2, ...: the stream goes on.
  std::string string(size_t index) {
    std::string text;
    for (uint64_t n = 1 + next(12); n > 0; --n) text += part();
    if (index % 1000 != 999) return text;
    std::string repeated;
    for (int i = 0; i < 60; ++i) repeated += text;
    return repeated;
  }

 private:
  uint64_t next(uint64_t bound) {
    uint64_t z = state_ += 0x9E3779B97F4A7C15ULL;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return ((z ^ (z >> 31)) >> 11) % bound;
  }

  std::string pick(const char* key) {
    const Json& list = parts_[key];
    return list[next(list.size())].get<std::string>();
  }

  static std::string utf8(uint32_t code_point) {
    std::string text;
    append_utf8(text, code_point);
    return text;
  }

  std::string code_point() {
    const auto plane = static_cast<uint32_t>(next(17));
    const uint32_t c = plane * 0x10000 + static_cast<uint32_t>(next(0x10000));
    return utf8(c >= 0xD800 && c < 0xE000 ? 0xFFFD : c);
  }

  template <typename Unit>
  std::string several(uint64_t most, Unit unit) {
    std::string text;
    for (uint64_t n = 1 + next(most); n > 0; --n) text += unit();
    return text;
  }

  std::string part() {
    const uint64_t kind = next(18);
    switch (kind) {
      case 0:
      case 1:
      case 2:
        return " " + pick("words");
      case 3:
        return pick("words");
      case 4:
        return several(8, [&] { return static_cast<char>(0x20 + next(95)); });
      case 5:
        return several(4, [&] { return code_point(); });
      case 6:
        return pick("emoji");
      case 7:
        return several(3, [&] { return next(4) != 0 ? static_cast<char>(next(32)) : '\x7F'; });
      case 8:
        return several(4, [&] { return static_cast<char>(0x80 + next(128)); });
      case 9:
        return std::string(1 + next(20), ' ');
      case 10:
        return several(6, [&] {
          static const std::vector<std::string> kBreaks = {"\n", "\r\n", "\n", " ", "\t"};
          return kBreaks[next(5)];
        });
      case 11:
        return several(12, [&] { return static_cast<char>(0x30 + next(10)); });
      case 12:
        return pick("special");
      case 13:
        return pick("right_to_left");
      case 14: {
        const std::string base(1, static_cast<char>(0x61 + next(26)));
        return base + several(5, [&] { return pick("marks"); });
      }
      case 15:
        return pick("scripts");
      case 16:
        return several(3, [&] { return pick("spaces"); });
      default: {
        static constexpr uint32_t kBlocks[] = {0x2E80, 0xAC00, 0x370, 0x400, 0x1F300, 0x31350};
        const uint32_t block = kBlocks[next(6)];
        return utf8(block + static_cast<uint32_t>(next(0x180)));
      }
    }
  }

  Json parts_;
  uint64_t state_ = 42;
};

}  // namespace sftbench
