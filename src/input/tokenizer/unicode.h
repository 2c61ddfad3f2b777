// UTF-8 and Unicode as Hugging Face `tokenizers` sees them.
//
// Its parts carry different Unicode versions (Oniguruma, Rust's library, an old normalization
// table); the classes here come from a generated table that asked the library itself, code point by
// code point. Normal forms are utf8proc's, held back where the older tables of the reference know
// nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace sftbench {

// Bits of a code point's class; the order is the generator's.
enum CharClass : uint8_t {
  kLetter = 1,        // \p{L} in a pattern
  kNumber = 2,        // \p{N} in a pattern
  kSpace = 4,         // White_Space
  kDigit = 8,         // Rust's char::is_numeric
  kWord = 16,         // \w of Rust's regex
  kPunctuation = 32,  // the Punctuation pre-tokenizer's
  kMark = 64,         // removed by the StripAccents normalizer
};

struct ClassRun {
  uint32_t first, last;
  uint8_t classes;
};
struct NewerRun {
  uint32_t first, last, replacement;
};
struct CodePointRun {
  uint32_t first, last;
};
struct LowerCase {
  uint32_t code_point;
  const char* text;
};
extern const std::span<const ClassRun> kClassRuns;
extern const std::span<const NewerRun> kNewerThanPcre2;
extern const std::span<const CodePointRun> kNormalizationBarriers;
extern const std::span<const LowerCase> kLowerCaseBeyondUtf8proc;

// Class bits of any code point below 0x110000, through a two-stage table.
class CharClasses {
 public:
  static const CharClasses& instance();
  uint8_t operator[](uint32_t code_point) const {
    return blocks_[index_[code_point >> 8]][code_point & 0xFF];
  }

 private:
  CharClasses();
  static constexpr size_t kBlocks = 0x1100;
  uint16_t index_[kBlocks] = {};
  uint8_t blocks_[512][256] = {};
};

// One code point and its length in bytes.
struct DecodedChar {
  uint32_t code_point;
  uint32_t size_bytes;
};

// REQUIRES: valid UTF-8 at `p`.
inline DecodedChar decode_utf8(const char* p) {
  const auto b = [p](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(p[i])); };
  if (b(0) < 0x80) return {b(0), 1};
  if (b(0) < 0xE0) return {(b(0) & 0x1F) << 6 | (b(1) & 0x3F), 2};
  if (b(0) < 0xF0) return {(b(0) & 0x0F) << 12 | (b(1) & 0x3F) << 6 | (b(2) & 0x3F), 3};
  return {(b(0) & 0x07) << 18 | (b(1) & 0x3F) << 12 | (b(2) & 0x3F) << 6 | (b(3) & 0x3F), 4};
}

// The code point that ends before `end`. REQUIRES: valid UTF-8, begin < end.
inline DecodedChar decode_utf8_before(const char* begin, const char* end) {
  const char* p = end - 1;
  while (p > begin && (static_cast<unsigned char>(*p) & 0xC0) == 0x80) --p;
  return decode_utf8(p);
}

void append_utf8(std::string& text, uint32_t code_point);

// Appends `bytes` with every maximal invalid part replaced by U+FFFD, as Python's decode("utf-8",
// "replace").
void append_sanitized(std::string& text, std::string_view bytes);

enum class NormalForm { kNfc, kNfd, kNfkc, kNfkd };

// Replaces `text` (valid UTF-8) by its normal form.
void normalize(std::string& text, NormalForm form);

// Rust's char::to_lowercase, character by character (no final sigma).
void to_lowercase(std::string& text);

}  // namespace sftbench
