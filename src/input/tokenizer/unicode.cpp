#include "tokenizer/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

bool is_ascii(std::string_view text) {
  size_t i = 0;
  for (; i + 8 <= text.size(); i += 8) {
    uint64_t word;
    std::memcpy(&word, text.data() + i, sizeof(word));
    if (word & 0x8080808080808080ULL) return false;
  }
  for (; i < text.size(); ++i) {
    if (static_cast<unsigned char>(text[i]) >= 0x80) return false;
  }
  return true;
}

bool is_barrier(uint32_t code_point) {
  const auto after =
      std::upper_bound(kNormalizationBarriers.begin(), kNormalizationBarriers.end(), code_point,
                       [](uint32_t c, const CodePointRun& run) { return c < run.first; });
  return after != kNormalizationBarriers.begin() && code_point <= std::prev(after)->last;
}

// utf8proc's own utf8proc_map sorts combining marks by insertion, which is quadratic in a run of
// marks.
void append_normalized(std::string& out, std::string_view text, NormalForm form) {
  const bool compose = form == NormalForm::kNfc || form == NormalForm::kNfkc;
  const bool compatible = form == NormalForm::kNfkc || form == NormalForm::kNfkd;
  const auto options =
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (compatible ? UTF8PROC_COMPAT : 0) |
                                     (compose ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE));
  constexpr utf8proc_ssize_t kLongestDecomposition = 64;
  const auto mark_class = [](utf8proc_int32_t c) {
    return utf8proc_get_property(c)->combining_class;
  };
  std::vector<utf8proc_int32_t> chars;
  chars.reserve(text.size() + kLongestDecomposition);
  for (size_t i = 0; i < text.size();) {
    const DecodedChar c = decode_utf8(text.data() + i);
    i += c.size_bytes;
    const size_t used = chars.size();
    chars.resize(used + kLongestDecomposition);
    int last_boundclass = 0;
    const auto count =
        utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c.code_point), chars.data() + used,
                                kLongestDecomposition, options, &last_boundclass);
    check(count >= 0 && count <= kLongestDecomposition, "a decomposition is short");
    chars.resize(used + static_cast<size_t>(count));
  }
  for (size_t i = 0; i < chars.size();) {
    size_t end = i;
    while (end < chars.size() && mark_class(chars[end]) != 0) ++end;
    std::stable_sort(chars.begin() + static_cast<std::ptrdiff_t>(i),
                     chars.begin() + static_cast<std::ptrdiff_t>(end),
                     [&](auto left, auto right) { return mark_class(left) < mark_class(right); });
    i = end + 1;
  }
  const auto size =
      utf8proc_normalize_utf32(chars.data(), static_cast<utf8proc_ssize_t>(chars.size()), options);
  check(size >= 0, "utf8proc accepts valid code points");
  for (utf8proc_ssize_t i = 0; i < size; ++i) {
    append_utf8(out, static_cast<uint32_t>(chars[static_cast<size_t>(i)]));
  }
}

// Bytes of the valid sequence at `p`, or 0 with the length of the maximal invalid part in `invalid`
// (Unicode 3.9, table 3-7: the ranges of the second byte keep out surrogates and overlong forms).
size_t valid_sequence(const unsigned char* p, size_t available, size_t& invalid) {
  const unsigned char lead = p[0];
  size_t size = 0;
  unsigned char low = 0x80, high = 0xBF;
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) size = 2;
  if (lead >= 0xE0 && lead <= 0xEF) size = 3;
  if (lead >= 0xF0 && lead <= 0xF4) size = 4;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  invalid = 1;
  for (size_t i = 1; i < size; ++i) {
    if (i >= available || p[i] < low || p[i] > high) return 0;
    low = 0x80;
    high = 0xBF;
    invalid = i + 1;
  }
  return size;
}

}  // namespace

CharClasses::CharClasses() {
  uint16_t used = 1;  // block 0 stays empty
  const auto fill = [&](uint32_t code_point, uint8_t classes) {
    uint16_t& block = index_[code_point >> 8];
    if (block == 0) block = used++;
    blocks_[block][code_point & 0xFF] = classes;
  };
  uint16_t whole[256] = {};  // blocks of one class are shared: most letters stand in such
  for (const ClassRun& run : kClassRuns) {
    for (uint32_t c = run.first; c <= run.last;) {
      if ((c & 0xFF) == 0 && c + 0xFF <= run.last) {
        uint16_t& shared = whole[run.classes];
        if (shared == 0) {
          shared = used++;
          std::memset(blocks_[shared], run.classes, sizeof(blocks_[shared]));
        }
        index_[c >> 8] = shared;
        c += 0x100;
      } else {
        fill(c++, run.classes);
      }
    }
  }
  check(used <= std::size(blocks_), "the table of character classes has room for every block");
}

const CharClasses& CharClasses::instance() {
  static const CharClasses classes;
  return classes;
}

void append_utf8(std::string& text, uint32_t code_point) {
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code_point), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

void append_sanitized(std::string& text, std::string_view bytes) {
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  size_t valid_from = 0;
  for (size_t i = 0; i < bytes.size();) {
    if (i + 8 <= bytes.size()) {
      uint64_t word;
      std::memcpy(&word, data + i, sizeof(word));
      if ((word & 0x8080808080808080ULL) == 0) {
        i += 8;
        continue;
      }
    }
    size_t invalid = 0;
    const size_t size = valid_sequence(data + i, bytes.size() - i, invalid);
    if (size > 0) {
      i += size;
      continue;
    }
    text.append(bytes, valid_from, i - valid_from);
    text.append("\xEF\xBF\xBD");
    i += invalid;
    valid_from = i;
  }
  text.append(bytes, valid_from, bytes.size() - valid_from);
}

void normalize(std::string& text, NormalForm form) {
  if (is_ascii(text)) return;
  std::string result;
  result.reserve(text.size() + text.size() / 2);
  size_t segment = 0;
  for (size_t i = 0; i < text.size();) {
    const DecodedChar c = decode_utf8(text.data() + i);
    if (c.code_point >= kNormalizationBarriers.front().first && is_barrier(c.code_point)) {
      append_normalized(result, std::string_view(text).substr(segment, i - segment), form);
      result.append(text, i, c.size_bytes);
      segment = i + c.size_bytes;
    }
    i += c.size_bytes;
  }
  append_normalized(result, std::string_view(text).substr(segment), form);
  text.swap(result);
}

void to_lowercase(std::string& text) {
  std::string result;
  result.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const DecodedChar c = decode_utf8(text.data() + i);
    i += c.size_bytes;
    const auto special = std::lower_bound(
        kLowerCaseBeyondUtf8proc.begin(), kLowerCaseBeyondUtf8proc.end(), c.code_point,
        [](const LowerCase& entry, uint32_t wanted) { return entry.code_point < wanted; });
    if (special != kLowerCaseBeyondUtf8proc.end() && special->code_point == c.code_point) {
      result.append(special->text);
    } else {
      append_utf8(result, static_cast<uint32_t>(
                              utf8proc_tolower(static_cast<utf8proc_int32_t>(c.code_point))));
    }
  }
  text.swap(result);
}

}  // namespace sftbench
