// The post-processor and the truncation of a tokenizer.json, for single texts.
// Source: tokenizers::processors::{template, roberta, bert, sequence, byte_level},
// tokenizers::utils::truncation.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/problems.h"

namespace sftbench {

struct PostProcessor {
  std::vector<int32_t> before, after;  // special tokens around the text

  // Reads `post_processor` (an object or null); what is unsupported becomes a problem.
  static PostProcessor parse(const Json& post_processor, TokenizerProblems& problems);
};

struct Truncation {
  bool enabled = false;
  int64_t max_length_tokens = 0;  // with the special tokens
  bool keep_end = false;          // direction "Left" cuts the beginning off

  static Truncation parse(const Json& truncation, TokenizerProblems& problems);
  // Shortens what stands in `ids` from `first` on; `reserved_tokens` are added later.
  void run(std::vector<int32_t>& ids, size_t first, size_t reserved_tokens) const;
};

}  // namespace sftbench
