// What stands beside tokenizer.json: tokenizer_config.json and special_tokens_map.json.
// Source: transformers' PreTrainedTokenizerBase.from_pretrained (the first file wins over the
// second).
#pragma once

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "sftbench/tokenizer/tokenizer.h"
#include "tokenizer/added.h"

namespace sftbench {

struct TokenizerConfig {
  SpecialTokens special;
  std::string tokenizer_class;
  int64_t model_max_length = std::numeric_limits<int64_t>::max();
  bool truncates_left = false;
  // In the order of added_tokens_decoder, then the special tokens: those that tokenizer.json may
  // lack.
  std::vector<AddedToken> tokens;
};

// Missing files are fine; InputError when one is malformed.
TokenizerConfig read_tokenizer_config(const std::filesystem::path& directory);

}  // namespace sftbench
