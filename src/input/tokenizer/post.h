// The post-processor of a tokenizer.json, for single texts.
// Source: tokenizers::processors::{template, roberta, bert, sequence, byte_level}.
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

}  // namespace sftbench
