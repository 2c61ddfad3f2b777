#include "tokenizer/config.h"

#include <algorithm>
#include <charconv>
#include <map>

#include "tokenizer/reader.h"

namespace sftbench {
namespace {

// A special token is written as its text or as an object with its text; null says that there is
// none.
std::string token_text(const Json& object, const char* name, TokenizerProblems& problems) {
  const auto found = object.find(name);
  if (found == object.end() || found->is_null()) return {};
  if (found->is_string()) return found->get<std::string>();
  if (found->is_object()) return problems.text(*found, "content", "", name);
  problems.add(name, "is " + kind_of(*found), "a token's text, an object with content, or null");
  return {};
}

void read_special(const Json& object, SpecialTokens& special, TokenizerProblems& problems) {
  const auto take = [&](const char* name, std::string& token) {
    if (token.empty()) token = token_text(object, name, problems);
  };
  take("bos_token", special.bos);
  take("eos_token", special.eos);
  take("unk_token", special.unk);
  take("pad_token", special.pad);
}

void read_decoder(const Json& decoder, TokenizerConfig& config, TokenizerProblems& problems) {
  if (!decoder.is_object())
    return problems.add("added_tokens_decoder", "is " + kind_of(decoder), "an object");
  std::map<int64_t, AddedToken> by_id;
  for (const auto& [id_text, value] : decoder.items()) {
    const std::string path = "added_tokens_decoder." + id_text;
    int64_t id = -1;
    const auto parsed = std::from_chars(id_text.data(), id_text.data() + id_text.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != id_text.data() + id_text.size() || id < 0) {
      problems.add(path, "is not an id", "a non-negative integer");
    } else {
      by_id[id] = parse_added_token(value, path, problems);
    }
  }
  for (auto& [id, token] : by_id) config.tokens.push_back(std::move(token));
}

// Absent, or written as 1e30, in tokenizers that know no limit.
int64_t read_max_length(const Json& object, TokenizerProblems& problems) {
  const auto found = object.find("model_max_length");
  if (found == object.end() || found->is_null()) return std::numeric_limits<int64_t>::max();
  if (!found->is_number() || found->get<double>() < 1) {
    problems.add("model_max_length", "is " + (found->is_number() ? found->dump() : kind_of(*found)),
                 "a positive number");
    return std::numeric_limits<int64_t>::max();
  }
  return found->get<double>() >= 9e18 ? std::numeric_limits<int64_t>::max() : found->get<int64_t>();
}

Json read_object(const std::filesystem::path& path, TokenizerProblems& problems) {
  if (!std::filesystem::exists(path)) return Json::object();
  Json object = read_json_file(path.string());
  if (object.is_object()) return object;
  problems.add("", "is " + kind_of(object), "an object");
  return Json::object();
}

}  // namespace

TokenizerConfig read_tokenizer_config(const std::filesystem::path& directory) {
  TokenizerConfig config;
  const std::filesystem::path main_path = directory / "tokenizer_config.json";
  TokenizerProblems problems(main_path.string());
  const Json main = read_object(main_path, problems);
  config.tokenizer_class = problems.text(main, "tokenizer_class", "", "");
  config.model_max_length = read_max_length(main, problems);
  config.truncates_left = problems.text(main, "truncation_side", "", "") == "left";
  if (main.contains("added_tokens_decoder"))
    read_decoder(main["added_tokens_decoder"], config, problems);
  read_special(main, config.special, problems);
  problems.throw_if_any();

  const std::filesystem::path map_path = directory / "special_tokens_map.json";
  TokenizerProblems map_problems(map_path.string());
  read_special(read_object(map_path, map_problems), config.special, map_problems);
  map_problems.throw_if_any();

  for (const std::string& text :
       {config.special.bos, config.special.eos, config.special.unk, config.special.pad}) {
    if (text.empty() || text.size() > AddedVocabulary::kLongestToken_bytes) continue;
    config.tokens.push_back({.content = text, .normalized = false, .special = true});
  }
  return config;
}

}  // namespace sftbench
