// Ids back to text, as the decoders ByteLevel, and ByteFallback behind Metaspace, of
// huggingface/tokenizers do it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tokenizer/added.h"
#include "tokenizer/bpe_tables.h"

namespace sftbench {

// As Tokenizer::decode() says.
std::string decode(const std::vector<int32_t>& ids, const TokenTable& vocabulary,
                   const std::map<int32_t, AddedToken>& added);

}  // namespace sftbench
