#include "tokenizer/pre_stages.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "tokenizer/normalizer.h"
#include "tokenizer/unicode.h"

namespace sftbench {
namespace {

// Merges matches and what is between them as Hugging Face's SplitDelimiterBehavior says.
class BehaviorFold {
 public:
  BehaviorFold(SplitBehavior behavior, PieceBatch& batch) : behavior_(behavior), batch_(batch) {}

  void add(const char* begin, const char* end, bool match) {
    switch (behavior_) {
      case SplitBehavior::kIsolated:
        return batch_.add(begin, end);
      case SplitBehavior::kRemoved:
        if (!match) batch_.add(begin, end);
        return;
      case SplitBehavior::kContiguous:
        if (begin_ == nullptr || match != previous_) start(begin);
        break;
      case SplitBehavior::kMergedWithPrevious:
        if (begin_ == nullptr || !match || previous_) start(begin);
        break;
      case SplitBehavior::kMergedWithNext:
        // A match opens a piece unless the one before it is a match that waits for its text: then
        // that one stands alone. Text joins a match right before it.
        if (begin_ == nullptr || match || !previous_) start(begin);
        break;
    }
    end_ = end;
    previous_ = match;
  }

  void finish() {
    if (begin_ != nullptr) batch_.add(begin_, end_);
  }

 private:
  void start(const char* begin) {
    finish();
    begin_ = begin;
  }

  SplitBehavior behavior_;
  PieceBatch& batch_;
  const char* begin_ = nullptr;
  const char* end_ = nullptr;
  bool previous_ = false;
};

#if defined(__SSE2__)
// The first byte at or behind `p` that is an ASCII digit or not ASCII; may lie behind the text.
const char* skip_no_digits(const char* p, const char* end) {
  for (; p < end; p += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i beyond = _mm_subs_epu8(_mm_sub_epi8(bytes, _mm_set1_epi8('0')), _mm_set1_epi8(9));
    const __m128i digit = _mm_cmpeq_epi8(beyond, _mm_setzero_si128());
    const auto mask = static_cast<uint32_t>(_mm_movemask_epi8(_mm_or_si128(digit, bytes)));
    if (mask != 0) return p + std::countr_zero(mask);
  }
  return p;
}
#endif

std::string padded(std::string text, size_t& size) {
  size = text.size();
  text.append(kTextPadding_bytes, '\0');
  return text;
}

// How much of a piece stands for the first character of the text.
size_t head_of(std::string_view piece, const char* head_end) {
  if (head_end == nullptr || head_end <= piece.data()) return 0;
  return std::min(static_cast<size_t>(head_end - piece.data()), piece.size());
}

}  // namespace

void PatternSplit::split(std::string_view piece, const char* head_end, PieceSink& sink) const {
  PieceBatch batch(sink, head_end);
  BehaviorFold fold(behavior_, batch);
  const char* const text = piece.data();
  Pattern::Matches matches(pattern_, piece);
  size_t begin = 0, end = 0, previous = 0;
  while (matches.next(begin, end)) {
    if (previous != begin) fold.add(text + previous, text + begin, invert_);
    fold.add(text + begin, text + end, !invert_);
    previous = end;
  }
  if (previous != piece.size()) fold.add(text + previous, text + piece.size(), invert_);
  fold.finish();
  batch.flush();
}

void CharSplit::split(std::string_view piece, const char* head_end, PieceSink& sink) const {
  PieceBatch batch(sink, head_end);
  BehaviorFold fold(behavior_, batch);
  const CharClasses& classes = CharClasses::instance();
  const char* const end = piece.data() + piece.size();
  const char* previous = piece.data();
  for (const char* p = previous; p < end;) {
    const DecodedChar c = decode_utf8(p);
    const char* behind = p + c.size_bytes;
    if ((classes[c.code_point] & classes_) || c.code_point == code_point_) {
      if (previous != p) fold.add(previous, p, false);
      fold.add(p, behind, true);
      previous = behind;
    }
    p = behind;
  }
  if (previous != end) fold.add(previous, end, false);
  fold.finish();
  batch.flush();
}

void DigitSplit::split(std::string_view piece, const char* head_end, PieceSink& sink) const {
  PieceBatch batch(sink, head_end);
  const CharClasses& classes = CharClasses::instance();
  const char* const end = piece.data() + piece.size();
  const char* begin = piece.data();
  bool in_digits = false;
  for (const char* p = begin; p < end;) {
#if defined(__SSE2__)
    if (!in_digits && (p = skip_no_digits(p, end)) >= end) break;
#endif
    const auto byte = static_cast<unsigned char>(*p);
    const DecodedChar c = byte < 0x80 ? DecodedChar{byte, 1} : decode_utf8(p);
    const bool digit = byte < 0x80 ? static_cast<unsigned>(byte) - '0' <= 9
                                   : (classes[c.code_point] & kDigit) != 0;
    if (digit != in_digits || (digit && individual_)) {
      batch.add(begin, p);
      begin = p;
      in_digits = digit;
    }
    p += c.size_bytes;
  }
  batch.add(begin, end);
  batch.flush();
}

void WhitespaceSplit::split(std::string_view piece, const char* head_end, PieceSink& sink) const {
  PieceBatch batch(sink, head_end);
  const CharClasses& classes = CharClasses::instance();
  const char* const end = piece.data() + piece.size();
  const char* begin = piece.data();
  uint8_t kind = kSpace;
  for (const char* p = begin; p < end;) {
    const DecodedChar c = decode_utf8(p);
    const uint8_t here = classes[c.code_point] & (kWord | kSpace);
    if (here != kind) {
      if (kind != kSpace) batch.add(begin, p);
      begin = p;
      kind = here;
    }
    p += c.size_bytes;
  }
  if (kind != kSpace) batch.add(begin, end);
  batch.flush();
}

void WordSplit::split(std::string_view piece, const char* head_end, PieceSink& sink) const {
  PieceBatch batch(sink, head_end);
  const char* const end = piece.data() + piece.size();
  const char* begin = piece.data();
  for (const char* p = begin; p < end;) {
    if (!marks(p)) {
      p = static_cast<const char*>(std::memchr(p + 1, first_, static_cast<size_t>(end - p - 1)));
      if (p == nullptr) break;
      continue;
    }
    batch.add(begin, p);
    begin = p;
    do {
      p += size_;
    } while (p < end && marks(p));
  }
  batch.add(begin, end);
  batch.flush();
}

void Metaspace::split(std::string_view piece, const char* head_end, PieceSink& sink) const {
  std::string text;
  text.reserve(piece.size() + piece.size() / 2 + mark_.size() + kTextPadding_bytes);
  const size_t head_bytes = head_of(piece, head_end);
  const bool begins_with_mark = piece.front() == ' ' || piece.starts_with(mark_);
  const bool wanted =
      prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && head_bytes > 0);
  if (wanted && !begins_with_mark) text += mark_;
  size_t mapped_head_bytes = 0;
  const auto append = [&](std::string_view part) {
    for (size_t from = 0; from <= part.size();) {
      const size_t space = std::min(part.find(' ', from), part.size());
      text.append(part, from, space - from);
      if (space < part.size()) text += mark_;
      from = space + 1;
    }
  };
  if (head_bytes > 0) {
    append(piece.substr(0, head_bytes));
    mapped_head_bytes = text.size();
  }
  append(piece.substr(head_bytes));
  size_t size = 0;
  text = padded(std::move(text), size);
  PieceBatch batch(sink, text.data() + mapped_head_bytes);
  const char* begin = text.data();
  if (split_) {
    const std::string_view view(text.data(), size);
    for (size_t at = view.find(mark_); at != std::string_view::npos;
         at = view.find(mark_, at + mark_.size())) {
      batch.add(begin, text.data() + at);
      begin = text.data() + at;
    }
  }
  batch.add(begin, text.data() + size);
  batch.flush();
}

void SpacePrefix::split(std::string_view piece, const char* head_end, PieceSink& sink) const {
  if (piece.front() == ' ') return sink.take({&piece, 1}, head_end);
  size_t size = 0;
  const std::string text = padded(" " + std::string(piece), size);
  const std::string_view prefixed(text.data(), size);
  const size_t head_bytes = head_of(piece, head_end);
  sink.take({&prefixed, 1}, head_bytes == 0 ? nullptr : text.data() + head_bytes + 1);
}

void ByteChars::split(std::string_view piece, const char* head_end, PieceSink& sink) const {
  const size_t head_bytes = byte_level_text(piece.substr(0, head_of(piece, head_end))).size();
  size_t size = 0;
  const std::string text = padded(byte_level_text(piece), size);
  const std::string_view mapped(text.data(), size);
  sink.take({&mapped, 1}, text.data() + head_bytes);
}

}  // namespace sftbench
