// The stages that pre-tokenizers are made of; see tokenizer_pre.h.
#pragma once

#include <cstring>

#include "tokenizer/pattern.h"
#include "tokenizer/pre.h"
#include "tokenizer/scanner.h"

namespace sftbench {

enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// One of the hand-written scanners, which cover the whole text.
template <typename Scanner>
class ScannedSplit final : public PreTokenizer {
 public:
  void split(std::string_view piece, const char* head_end, PieceSink& sink) const override {
    PieceBatch batch(sink, head_end);
    const char* p = piece.data();
    for (const char* const end = p + piece.size(); p < end;) {
      const char* behind = scanner_.next(p, end);
      batch.add(p, behind);
      p = behind;
    }
    batch.flush();
  }

 private:
  Scanner scanner_;
};

// Split by a pattern.
class PatternSplit final : public PreTokenizer {
 public:
  PatternSplit(Pattern pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void split(std::string_view piece, const char* head_end, PieceSink& sink) const override;

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Split by single characters: those of some class, or one code point.
class CharSplit final : public PreTokenizer {
 public:
  CharSplit(CharClass classes, SplitBehavior behavior) : classes_(classes), behavior_(behavior) {}
  CharSplit(uint32_t code_point, SplitBehavior behavior)
      : code_point_(code_point), behavior_(behavior) {}
  void split(std::string_view piece, const char* head_end, PieceSink& sink) const override;

 private:
  uint8_t classes_ = 0;
  uint32_t code_point_ = 0xFFFFFFFF;
  SplitBehavior behavior_;
};

// Runs of digits, or each digit, apart from what is between them; the common case of CharSplit.
class DigitSplit final : public PreTokenizer {
 public:
  explicit DigitSplit(bool individual) : individual_(individual) {}
  void split(std::string_view piece, const char* head_end, PieceSink& sink) const override;

 private:
  bool individual_;
};

// \w+|[^\w\s]+ of Rust's regex.
class WhitespaceSplit final : public PreTokenizer {
 public:
  void split(std::string_view piece, const char* head_end, PieceSink& sink) const override;
};

// Before every run of `mark`, one character.
class WordSplit final : public PreTokenizer {
 public:
  explicit WordSplit(const std::string& mark) : size_(mark.size()), first_(mark.front()) {
    std::memcpy(&bits_, mark.data(), size_);
    std::memset(&mask_, 0xFF, size_);
  }
  void split(std::string_view piece, const char* head_end, PieceSink& sink) const override;

 private:
  bool marks(const char* p) const {  // reads into the padding
    uint32_t bits;
    std::memcpy(&bits, p, sizeof(bits));
    return (bits & mask_) == bits_;
  }
  size_t size_;
  char first_;
  uint32_t bits_ = 0, mask_ = 0;
};

// Spaces become `mark`, one more stands before the text, and (with `split`) every mark begins a
// piece.
class Metaspace final : public PreTokenizer {
 public:
  enum class Prepend { kFirst, kNever, kAlways };
  Metaspace(std::string mark, Prepend prepend, bool split)
      : mark_(std::move(mark)), prepend_(prepend), split_(split) {}
  void split(std::string_view piece, const char* head_end, PieceSink& sink) const override;

 private:
  std::string mark_;
  Prepend prepend_;
  bool split_;
};

// A space before every piece that does not begin with one.
class SpacePrefix final : public PreTokenizer {
 public:
  void split(std::string_view piece, const char* head_end, PieceSink& sink) const override;
};

// Bytes written as characters.
class ByteChars final : public PreTokenizer {
 public:
  void split(std::string_view piece, const char* head_end, PieceSink& sink) const override;
};

}  // namespace sftbench
