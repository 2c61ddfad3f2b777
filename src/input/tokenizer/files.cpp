#include "sftbench/tokenizer/files.h"

#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "tokenizer/added.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;
using AddedTokens = std::map<int32_t, AddedToken>;

constexpr const char* kTokenizer = "tokenizer.json";
constexpr const char* kConfig = "tokenizer_config.json";
constexpr const char* kMap = "special_tokens_map.json";
constexpr const char* kAdded = "added_tokens.json";
constexpr const char* kUnchanged[] = {"tokenizer.model", "vocab.json", "merges.txt",
                                      "chat_template.jinja"};

// --- tokenizer.json ------------------------------------------------------------------------------

struct Range {
  size_t begin, end;
};

// The first place at or after `at` that is no white space.
size_t skip_space(std::string_view text, size_t at) {
  return std::min(text.find_first_not_of(" \t\r\n", at), text.size());
}

// Behind the string that begins at `at`.
size_t skip_string(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

// Behind the value that begins at `at`.
size_t skip_value(std::string_view text, size_t at) {
  int depth = 0;
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
    } else if (depth == 0 && (c == ',' || c == '}' || c == ']')) {
      return at;
    } else {
      depth += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
      ++at;
    }
    if (depth == 0 && (c == '"' || c == '}' || c == ']')) return at;
  }
  return at;
}

// Where the value of a member of the whole object stands. REQUIRES: the text is a JSON object.
std::optional<Range> member_range(std::string_view text, std::string_view name) {
  size_t at = skip_space(text, skip_space(text, 0) + 1);
  while (at < text.size() && text[at] == '"') {
    const size_t key_end = skip_string(text, at);
    const std::string_view key = text.substr(at + 1, key_end - at - 2);
    const size_t begin = skip_space(text, skip_space(text, key_end) + 1);
    const size_t end = skip_value(text, begin);
    if (key == name) return Range{begin, end};
    at = skip_space(text, skip_space(text, end) + 1);
  }
  return {};
}

Json flags_of(const AddedToken& token) {
  return {{"content", token.content},
          {"lstrip", token.lstrip},
          {"normalized", token.normalized},
          {"rstrip", token.rstrip},
          {"single_word", token.single_word}};
}

Json list_of(const AddedTokens& tokens) {
  Json list = Json::array();
  for (const auto& [id, token] : tokens) {
    list.push_back({{"id", id},
                    {"content", token.content},
                    {"single_word", token.single_word},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", token.normalized},
                    {"special", token.special}});
  }
  return list;
}

std::string indented(const Json& value) {
  std::string text;
  for (const char c : json_text(value, 2)) {
    text += c;
    if (c == '\n') text += "  ";
  }
  return text;
}

// All but the list stays byte for byte: to parse and write 17 MB of vocabulary takes long, and
// would change its escapes.
std::string with_added_tokens(std::string text, const AddedTokens& tokens) {
  const Json list = list_of(tokens);
  const std::optional<Range> range = member_range(text, "added_tokens");
  if (!range) {
    return list.empty()
               ? text
               : text.insert(text.find('{') + 1, "\n  \"added_tokens\": " + indented(list) + ",");
  }
  const size_t size = range->end - range->begin;
  if (parse_json(std::string_view(text).substr(range->begin, size), kTokenizer) == list)
    return text;
  return text.replace(range->begin, size, indented(list));
}

// --- what stands beside it -----------------------------------------------------------------------

const std::pair<const char*, std::string SpecialTokens::*> kRoles[] = {
    {"bos_token", &SpecialTokens::bos},
    {"eos_token", &SpecialTokens::eos},
    {"unk_token", &SpecialTokens::unk},
    {"pad_token", &SpecialTokens::pad}};

// A token is written as its text or as an object with its content.
bool says(const Json& object, const char* role, const std::string& token) {
  const auto found = object.find(role);
  if (found == object.end()) return token.empty();
  return *found == token || (found->is_object() && found->value("content", "") == token);
}

Json with_roles(Json config, const SpecialTokens& special) {
  for (const auto& [role, token] : kRoles) {
    if (!says(config, role, special.*token)) config[role] = special.*token;
  }
  return config;
}

Json with_decoder(Json config, const AddedTokens& tokens) {
  const auto decoder = config.find("added_tokens_decoder");
  if (decoder == config.end() || !decoder->is_object()) return config;
  for (const auto& [id, token] : tokens) {
    Json entry = flags_of(token);
    entry["special"] = token.special;
    (*decoder)[std::to_string(id)] = std::move(entry);
  }
  return config;
}

Json with_map(Json map, const SpecialTokens& special, const AddedTokens& tokens) {
  for (const auto& [role, member] : kRoles) {
    const std::string& text = special.*member;
    if (says(map, role, text)) continue;
    map[role] = text;
    for (const auto& [id, token] : tokens) {
      if (token.content == text) map[role] = flags_of(token);
    }
  }
  return map;
}

Json with_ids(Json added, const AddedTokens& tokens, const Tokenizer& original) {
  for (const auto& [id, token] : tokens) {
    if (!original.token_id(token.content)) added[token.content] = id;
  }
  return added;
}

// --- files ---------------------------------------------------------------------------------------

class Files {
 public:
  explicit Files(fs::path folder) : folder_(std::move(folder)) {}

  bool has(const char* name) const { return fs::is_regular_file(folder_ / name); }
  std::string text(const char* name) const { return read_file(folder_ / name); }
  Json json(const char* name) const { return read_json_file((folder_ / name).string()); }

  void add(const char* name, std::string text) { list_.push_back({name, std::move(text)}); }
  void copy(const char* name) {
    if (has(name)) add(name, text(name));
  }
  // `changed` if it says anything else than the file does.
  void add_changed(const char* name, const Json& changed) {
    if (has(name) && json(name) == changed) return copy(name);
    add(name, json_text(changed, 2) + "\n");
  }

  std::vector<TokenizerFile> take() { return std::move(list_); }

 private:
  fs::path folder_;
  std::vector<TokenizerFile> list_;
};

}  // namespace

std::vector<TokenizerFile> tokenizer_files(const fs::path& directory, const Tokenizer& completed) {
  const fs::path folder =
      directory.empty() ? resource_directory() / "datasets" / "tokenizer" : directory;
  const Tokenizer original = Tokenizer::from_directory(folder);
  const AddedTokens tokens = completed.added_tokens();
  const SpecialTokens& special = completed.special_tokens();

  Files files(folder);
  files.add(kTokenizer, with_added_tokens(files.text(kTokenizer), tokens));
  const Json config = files.has(kConfig) ? files.json(kConfig)
                                         : Json({{"tokenizer_class", "PreTrainedTokenizerFast"}});
  files.add_changed(kConfig, with_decoder(with_roles(config, special), tokens));
  if (files.has(kMap) || special != original.special_tokens()) {
    const Json map = files.has(kMap) ? files.json(kMap) : Json::object();
    files.add_changed(kMap, with_map(map, special, tokens));
  }
  if (files.has(kAdded)) files.add_changed(kAdded, with_ids(files.json(kAdded), tokens, original));
  for (const char* name : kUnchanged) files.copy(name);
  return files.take();
}

}  // namespace sftbench
