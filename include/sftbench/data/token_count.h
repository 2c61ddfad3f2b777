// How many tokens the entries of a dataset file have: for reports, and to fill the cache ahead of
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sftbench/data/entries.h"
#include "sftbench/data/jsonl.h"
#include "sftbench/data/parquet_library.h"
#include "sftbench/data/token_cache.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {

// Tokens of the field of every entry, with the tokenizer's own special tokens, not truncated. What
// `cache` knows is not counted again; what is counted is put there (save() is the caller's).
// `progress`, when given, is told how many entries are done after each; what it throws ends the
// work. InputError with everything that is wrong with the entries, up to 20 lines.
std::vector<int64_t> count_tokens(const JsonlFile& file, const std::string& text_field,
                                  const Tokenizer& tokenizer, int threads, TokenCountCache& cache,
                                  const std::function<void(int64_t entries)>& progress = {});
std::vector<int64_t> count_tokens(const Entries& entries, const std::string& text_field,
                                  const Tokenizer& tokenizer, int threads, TokenCountCache& cache,
                                  const std::function<void(int64_t entries)>& progress = {});
std::vector<int64_t> count_tokens(ParquetTexts& texts, const Tokenizer& tokenizer, int threads,
                                  TokenCountCache& cache,
                                  const std::function<void(int64_t entries)>& progress = {});

}  // namespace sftbench
