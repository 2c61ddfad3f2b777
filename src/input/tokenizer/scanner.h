// Hand-written scanners for the split patterns of well-known families, equal to the patterns (a
// test holds them against PCRE2) and several times as fast.
//
//   Gpt2Scanner    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   Llama3Scanner  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|
//                  ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+     (Qwen 2: \p{N} instead of
//                  \p{N}{1,3})
//
// Each has `const char* next(const char* p, const char* end) const`: the end of the piece that
// begins at p. REQUIRES: p < end, valid UTF-8, and kTextPadding_bytes readable bytes behind `end`.
#pragma once

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <bit>

#include "tokenizer/unicode.h"

namespace sftbench {

constexpr size_t kTextPadding_bytes = 16;
constexpr const char* kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

class ScannerBase {
 protected:
  static constexpr uint8_t kNotOther = kLetter | kNumber | kSpace;

  uint8_t class_at(const char* p) const { return classes_[decode_utf8(p).code_point]; }

  // Behind the letters that stand at `p`.
  const char* letters(const char* p, const char* end) const {
    for (;;) {
#if defined(__SSE2__)
      const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
      const __m128i lower = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
      // Unsigned "lower - 'a' <= 25" as a saturating subtraction that leaves nothing.
      const __m128i beyond =
          _mm_subs_epu8(_mm_sub_epi8(lower, _mm_set1_epi8('a')), _mm_set1_epi8(25));
      const auto no_letter = static_cast<uint32_t>(
          _mm_movemask_epi8(_mm_cmpeq_epi8(beyond, _mm_setzero_si128())) ^ 0xFFFF);
      const int run = std::countr_zero(no_letter | 0x10000U);
      p += run;
      if (p >= end) return end;
      if (run == 16) continue;
#else
      while (p < end && static_cast<unsigned char>((*p | 0x20) - 'a') <= 25) ++p;
      if (p >= end) return end;
#endif
      if (static_cast<unsigned char>(*p) < 0x80) return p;
      const DecodedChar c = decode_utf8(p);
      if ((classes_[c.code_point] & kLetter) == 0) return p;
      p += c.size_bytes;
      if (p >= end) return end;
    }
  }

  // Behind the characters at `p` that have one of `wanted`, at most `most` of them.
  const char* numbers(const char* p, const char* end, int most) const {
    for (int n = 0; p < end && n < most; ++n) {
      const DecodedChar c = decode_utf8(p);
      if ((classes_[c.code_point] & kNumber) == 0) break;
      p += c.size_bytes;
    }
    return p;
  }

  // Behind the characters at `p` that are neither letters nor numbers nor spaces.
  const char* others(const char* p, const char* end) const {
    while (p < end) {
      const DecodedChar c = decode_utf8(p);
      if (classes_[c.code_point] & kNotOther) break;
      p += c.size_bytes;
    }
    return p;
  }

  const char* spaces(const char* p, const char* end) const {
    while (p < end) {
      const DecodedChar c = decode_utf8(p);
      if ((classes_[c.code_point] & kSpace) == 0) break;
      p += c.size_bytes;
    }
    return p;
  }

  // \s+(?!\S)|\s+ : the spaces at `p`, all but the last when something follows them.
  const char* space_piece(const char* p, const char* end) const {
    const char* behind = spaces(p, end);
    if (behind == end) return end;
    const char* last = behind - decode_utf8_before(p, behind).size_bytes;
    return last > p ? last : behind;
  }

  const CharClasses& classes_ = CharClasses::instance();
};

class Gpt2Scanner : public ScannerBase {
 public:
  const char* next(const char* p, const char* end) const {
    if (*p == ' ' && p + 1 < end) {
      const uint8_t behind = class_at(p + 1);
      if (behind & kLetter) return letters(p + 1, end);
      if (behind & kSpace) return space_piece(p, end);
      return behind & kNumber ? numbers(p + 1, end, kUnlimited) : others(p + 1, end);
    }
    const uint8_t here = class_at(p);
    if (here & kLetter) return letters(p, end);
    if (here & kNumber) return numbers(p, end, kUnlimited);
    if (here & kSpace) return space_piece(p, end);
    if (*p == '\'') {
      if (const size_t size = contraction(p, end)) return p + size;
    }
    return others(p, end);
  }

 private:
  static constexpr int kUnlimited = 0x7FFFFFFF;

  static size_t contraction(const char* p, const char* end) {
    if (end - p >= 2 && (p[1] == 's' || p[1] == 't' || p[1] == 'm' || p[1] == 'd')) return 2;
    if (end - p < 3) return 0;
    const bool three = (p[1] == 'r' && p[2] == 'e') || (p[1] == 'v' && p[2] == 'e') ||
                       (p[1] == 'l' && p[2] == 'l');
    return three ? 3 : 0;
  }
};

template <int kMostDigits>
class Llama3Scanner : public ScannerBase {
 public:
  const char* next(const char* p, const char* end) const {
    if (*p == '\'') {
      if (const size_t size = contraction(p, end)) return p + size;
    }
    const DecodedChar c = decode_utf8(p);
    const uint8_t here = classes_[c.code_point];
    if (here & kLetter) return letters(p, end);
    if (here & kNumber) return numbers(p, end, kMostDigits);
    const char* behind = p + c.size_bytes;
    const bool line_break = *p == '\r' || *p == '\n';
    const uint8_t next_class = behind < end ? class_at(behind) : uint8_t{kSpace};
    if (!line_break && (next_class & kLetter)) return letters(behind, end);
    if ((here & kSpace) == 0) return line_breaks(others(p, end), end);
    if (*p == ' ' && (next_class & kNotOther) == 0) return line_breaks(others(behind, end), end);
    const char* all = spaces(p, end);
    for (const char* q = all; q > p; --q) {
      if (q[-1] == '\r' || q[-1] == '\n') return q;
    }
    return space_piece(p, end);
  }

 private:
  static const char* line_breaks(const char* p, const char* end) {
    while (p < end && (*p == '\r' || *p == '\n')) ++p;
    return p;
  }

  // Without regard to case, which in Unicode makes U+017F (long s) an s.
  static size_t contraction(const char* p, const char* end) {
    const auto lower = [p](int i) { return static_cast<char>(p[i] | 0x20); };
    if (end - p < 2) return 0;
    const char first = lower(1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    if (end - p < 3) return 0;
    if (p[1] == '\xC5' && p[2] == '\xBF') return 3;
    const char second = lower(2);
    const bool three = (first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                       (first == 'l' && second == 'l');
    return three ? 3 : 0;
  }
};

}  // namespace sftbench
