// The files of a tokenizer as it was used: those that transformers writes and reads, with the
// special tokens that training has added.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {

struct TokenizerFile {
  std::string name;
  std::string text;
};

// `directory` holds the tokenizer that `completed` was made from; empty: Tokenizer::builtin(). A
// file that is right as it stands is copied byte for byte. Otherwise, as save_pretrained() does:
//   tokenizer.json          added_tokens by rising id; nothing else of it changes
//   tokenizer_config.json   bos_token, eos_token, unk_token, pad_token, and added_tokens_decoder if
//                           it was there
//   special_tokens_map.json the same four tokens
//   added_tokens.json       text -> id of the new tokens, if it was there
// InputError when a file cannot be read.
std::vector<TokenizerFile> tokenizer_files(const std::filesystem::path& directory,
                                           const Tokenizer& completed);

}  // namespace sftbench
