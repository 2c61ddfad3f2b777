// The small tokenizers that tests/reference/data.py trained, set up as it used them.
#pragma once

#include <filesystem>
#include <string>

#include "sftbench/base/json.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {

// `golden` is one element of entries.json's "tokenizers".
inline Tokenizer golden_tokenizer(const Json& golden) {
  const std::filesystem::path folder =
      std::filesystem::path(SFTBENCH_TEST_DATA) / "data" / "tokenizers";
  Tokenizer tokenizer = Tokenizer::from_directory(folder / golden["name"].get<std::string>());
  const SpecialTokens tokens{
      .bos = golden["bos"], .eos = golden["eos"], .unk = {}, .pad = golden["pad"]};
  tokenizer.add_special_token(tokens.pad);
  tokenizer.set_special_tokens(tokens);
  return tokenizer;
}

// Entries as a JSONL file would have them.
inline std::string as_jsonl(const Json& texts) {
  std::string lines;
  for (const Json& text : texts) lines += Json{{"output", text}}.dump() + "\n";
  return lines;
}

}  // namespace sftbench
