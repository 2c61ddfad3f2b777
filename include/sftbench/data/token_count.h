// How many tokens the texts of vision datasets have, whose entries are encoded with their pictures.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sftbench/data/parquet_library.h"
#include "sftbench/data/token_cache.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {

// Tokens of every text, with the tokenizer's own special tokens, not truncated. What `cache` knows
// is not counted again; what is counted is put there (save() is the caller's). `progress`, when
// given, is told how many entries are done after each; what it throws ends the work. InputError
// with everything that is wrong with the entries, up to 20 of them.
std::vector<int64_t> count_tokens(ParquetTexts& texts, const Tokenizer& tokenizer, int threads,
                                  TokenCountCache& cache,
                                  const std::function<void(int64_t entries)>& progress = {});

}  // namespace sftbench
