// The pre-tokenizers of a tokenizer.json: they cut a normalized text into the pieces that the model
// sees.
//
// A chain of stages; each takes one piece and hands its parts to the next in batches, so that a
// text is never copied and the model can work on many pieces at a time. Source:
// tokenizers::pre_tokenizers.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/problems.h"

namespace sftbench {

// Takes pieces in text order. None is empty; behind each, kTextPadding_bytes bytes are readable.
class PieceSink {
 public:
  // What begins before `head_end` stands for the first character of the whole text; pieces and
  // `head_end` point into one buffer. Null: nothing does, since that character was removed or
  // belongs to another piece.
  virtual void take(std::span<const std::string_view> pieces, const char* head_end) = 0;

 protected:
  ~PieceSink() = default;
};

// Gathers pieces into batches for a sink; hands the rest on when it goes out of scope through
// flush().
class PieceBatch {
 public:
  PieceBatch(PieceSink& sink, const char* head_end) : sink_(sink), head_end_(head_end) {}

  void add(const char* begin, const char* end) {
    if (begin == end) return;
    pieces_[count_++] = {begin, static_cast<size_t>(end - begin)};
    if (count_ == pieces_.size()) flush();
  }
  void flush() {
    if (count_ == 0) return;
    sink_.take({pieces_.data(), count_}, head_end_);
    count_ = 0;
  }

 private:
  PieceSink& sink_;
  const char* head_end_;
  size_t count_ = 0;
  std::array<std::string_view, 64> pieces_;
};

class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  // REQUIRES: `piece` as PieceSink promises.
  virtual void split(std::string_view piece, const char* head_end, PieceSink& sink) const = 0;
};

class PreTokenizerChain {
 public:
  // Reads `pre_tokenizer` (an object or null); what is unsupported becomes a problem.
  static PreTokenizerChain parse(const Json& pre_tokenizer, TokenizerProblems& problems);

  void run(std::string_view piece, const char* head_end, PieceSink& sink) const;

  // True when the chain ends by writing bytes as characters: left to the model, which then sees
  // bytes.
  bool ends_in_bytes() const { return ends_in_bytes_; }

  // Cuts before every run of `mark` (one character) at the end of the chain.
  void append_word_split(const std::string& mark);

  // The pattern that a Split of `regex` would run, always through PCRE2; for tests.
  static std::unique_ptr<PreTokenizer> general_split(const std::string& regex);
  // The hand-written stage for a well-known pattern, null for others.
  static std::unique_ptr<PreTokenizer> known_split(const std::string& regex);

 private:
  void append(const Json& pre_tokenizer, const std::string& path, int depth,
              TokenizerProblems& problems);
  void append_byte_level(const Json& pre_tokenizer, const std::string& path,
                         TokenizerProblems& problems);

  std::vector<std::shared_ptr<const PreTokenizer>> stages_;  // shared by copies of the chain
  bool ends_in_bytes_ = false;
};

}  // namespace sftbench
