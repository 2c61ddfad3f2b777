// How many tokens each entry of a dataset file has under one tokenizer, kept in a file so that it
// is counted once. The counts are of all that training reads of it, EOS among it, not truncated, so
// that one cache serves every model_max_length.
//
// One file per (tokenizer, dataset file, field), named by their digests. It is written atomically;
// a file that is corrupt, or was made for something else, is treated as absent: recomputed, never
// trusted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace sftbench {

struct TokenCacheKey {
  std::string tokenizer_digest;
  std::string dataset_digest;
  std::string text_field;
  int64_t entries = 0;
};

class TokenCountCache {
 public:
  // Reads what `directory` holds for this key; starts empty when there is nothing that can be
  // trusted.
  TokenCountCache(const std::filesystem::path& directory, TokenCacheKey key);

  std::optional<int64_t> tokens(int64_t entry) const;
  void set(int64_t entry, int64_t tokens);
  int64_t known() const { return known_; }  // entries
  bool complete() const { return known_ == static_cast<int64_t>(tokens_.size()); }

  // Writes the file if something was learned since it was read. InputError when it cannot be
  // written.
  void save();

  const std::filesystem::path& path() const { return path_; }

 private:
  void load();

  TokenCacheKey key_;
  std::filesystem::path path_;
  std::vector<int64_t> tokens_;  // -1: not known
  int64_t known_ = 0;
  bool changed_ = false;
};

// Digest of what decides a tokenizer's ids: tokenizer.json and its two side files where present.
// An empty directory means the tokenizer that ships with the program. InputError when there is
// none.
std::string tokenizer_digest(const std::filesystem::path& directory);

}  // namespace sftbench
