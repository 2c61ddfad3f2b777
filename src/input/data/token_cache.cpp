#include "sftbench/data/token_cache.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/kept_digest.h"

namespace sftbench {
namespace {

constexpr const char* kSchema = "sftbench.token_counts/2";

Json header(const TokenCacheKey& key) {
  return {{"schema", kSchema},
          {"tokenizer", key.tokenizer_digest},
          {"dataset", key.dataset_digest},
          {"field", key.text_field},
          {"entries", key.entries}};
}

bool is_count_list(const Json& tokens, int64_t entries) {
  return tokens.is_array() && tokens.size() == static_cast<size_t>(entries) &&
         std::all_of(tokens.begin(), tokens.end(), [](const Json& count) {
           return count.is_number_integer() && count.get<int64_t>() >= -1;
         });
}

}  // namespace

TokenCountCache::TokenCountCache(const std::filesystem::path& directory, TokenCacheKey key)
    : key_(std::move(key)),
      path_(directory / ("tokens-" + digest(json_text(header(key_))) + ".json")),
      tokens_(static_cast<size_t>(key_.entries), -1) {
  load();
}

void TokenCountCache::load() {
  if (!std::filesystem::exists(path_)) return;
  Json json;
  try {
    json = read_json_file(path_.string());
  } catch (const InputError&) {
    return;  // unreadable or cut off: counted again, and written over
  }
  const Json expected = header(key_);
  for (const auto& [name, value] : expected.items()) {
    if (!json.is_object() || !json.contains(name) || json[name] != value) return;
  }
  if (!json.contains("tokens") || !is_count_list(json["tokens"], key_.entries)) return;
  if (!json.contains("digest") || json["digest"] != digest(json_text(json["tokens"]))) return;
  tokens_ = json["tokens"].get<std::vector<int64_t>>();
  known_ = std::count_if(tokens_.begin(), tokens_.end(), [](int64_t count) { return count >= 0; });
}

std::optional<int64_t> TokenCountCache::tokens(int64_t entry) const {
  const int64_t count = tokens_.at(static_cast<size_t>(entry));
  return count < 0 ? std::nullopt : std::optional(count);
}

void TokenCountCache::set(int64_t entry, int64_t tokens) {
  int64_t& count = tokens_.at(static_cast<size_t>(entry));
  if (count == tokens) return;
  known_ += count < 0 ? 1 : 0;
  count = tokens;
  changed_ = true;
}

void TokenCountCache::save() {
  if (!changed_) return;
  Json json = header(key_);
  json["tokens"] = tokens_;
  json["digest"] = digest(json_text(json["tokens"]));
  write_file_atomic(path_, json_text(json) + "\n");
  changed_ = false;
}

std::string tokenizer_digest(const std::filesystem::path& directory) {
  const std::filesystem::path folder =
      directory.empty() ? resource_directory() / "datasets" / "tokenizer" : directory;
  std::string digests = kept_digest(folder / "tokenizer.json");
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const std::filesystem::path path = folder / name;
    digests += std::filesystem::exists(path) ? kept_digest(path) : "-";
  }
  return digest(digests);
}

}  // namespace sftbench
