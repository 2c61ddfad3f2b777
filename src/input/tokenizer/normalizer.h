// The normalizers of a tokenizer.json, run in place on one text. Source: tokenizers::normalizers.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tokenizer/problems.h"

namespace sftbench {

class NormalizerChain {
 public:
  // Reads `normalizer` (an object or null); what is unsupported becomes a problem.
  static NormalizerChain parse(const Json& normalizer, TokenizerProblems& problems);

  bool empty() const { return steps_.empty(); }
  // Of the first `head_bytes` bytes, it follows what they become, and returns how many stand for
  // them in the end: 0 when they were removed. (Hugging Face knows by its offsets where the text's
  // first character went.) REQUIRES: `text` is valid UTF-8; it stays so. `head_bytes` ends a
  // character.
  size_t run(std::string& text, size_t head_bytes = 0) const {
    for (const auto& step : steps_) head_bytes = step(text, head_bytes);
    return head_bytes;
  }

 private:
  void append(const Json& normalizer, const std::string& path, int depth,
              TokenizerProblems& problems);
  std::vector<std::function<size_t(std::string&, size_t)>> steps_;
};

// The 256 characters that byte-level vocabularies write for the bytes (GPT-2's bytes_to_unicode),
// as UTF-8.
const std::string& byte_level_char(unsigned char byte);
std::string byte_level_text(std::string_view bytes);

}  // namespace sftbench
