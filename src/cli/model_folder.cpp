#include "cli/model_folder.h"

#include <filesystem>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/huggingface/cache.h"
#include "sftbench/translate/file_kind.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse_model(std::string key, std::string message, std::string expected,
                               std::string nearest = {}) {
  throw InputError(
      {{{}, 0, std::move(key), std::move(message), std::move(expected), std::move(nearest)}});
}

Json json_in(const std::string& folder, const char* name) {
  const std::string path = (fs::path(folder) / name).string();
  Json json = read_json_file(path);
  if (!json.is_object())
    refuse_model(path, std::string("found ") + json.type_name(), "a JSON object");
  return json;
}

// "</s>", which may be an object around its content.
std::string token_named(const Json& config, const std::string& name) {
  const auto found = config.find(name);
  if (found == config.end()) return {};
  if (found->is_string()) return found->get<std::string>();
  return found->is_object() ? found->value("content", std::string()) : std::string();
}

}  // namespace

OwnModel own_model(const std::string& option, const std::string& given) {
  if (given.empty()) return {};
  refuse_other_kind(option, given);
  std::error_code error;
  if (fs::is_directory(given, error)) {
    const fs::path folder = fs::canonical(given, error);
    if (error) refuse_model(option, given + ": " + error.message(), "a folder that can be read");
    const bool has_config = fs::exists(folder / "config.json", error);
    if (error) refuse_model(option, given + ": " + error.message(), "a folder that can be read");
    if (!has_config && fs::exists(folder / "adapter_config.json", error)) {
      refuse_model(option, given + " is the folder of an adapter",
                   "the model that it adapts, or what `sftbench weights merge " + given +
                       " -o DIR` makes of both");
    }
    if (!has_config) {
      refuse_model(option, given + " has no config.json", "a folder that save_pretrained() made");
    }
    return {folder.filename().string(), folder.string(), folder.string()};
  }
  if (fs::is_regular_file(given, error))
    refuse_model(option, given + " is a file", "the folder of a model");
  const bool one_name = given.find('/') == std::string::npos;
  if (!is_hub_id(given) || one_name) {
    refuse_model(option, given + " is no folder",
                 "the folder of a model, or a hub id as ORG/NAME" +
                     std::string(one_name ? "; or a name of `sftbench models`" : ""),
                 one_name ? Catalog::shipped().models.near(given).name : "");
  }
  return {given, given, {}};
}

int64_t most_positions(const std::string& folder) {
  const Json config = json_in(folder, "config.json");
  for (const char* key : {"max_position_embeddings", "n_positions", "seq_length"}) {
    const auto found = config.find(key);
    if (found != config.end() && found->is_number_integer()) return found->get<int64_t>();
  }
  return 0;
}

std::string dtype_of_model(const std::string& folder) {
  const Json config = json_in(folder, "config.json");
  const Json text = config.value("text_config", Json::object());
  for (const Json* part : {&config, &text}) {
    for (const char* key : {"dtype", "torch_dtype"}) {
      const auto found = part->find(key);
      if (found != part->end() && found->is_string()) return found->get<std::string>();
    }
  }
  return {};
}

void require_special_tokens(const std::vector<ArgumentFile::SpecialToken>& tokens,
                            const std::string& folder) {
  std::error_code error;
  if (tokens.empty() || !fs::exists(fs::path(folder) / "tokenizer_config.json", error)) return;
  const Json config = json_in(folder, "tokenizer_config.json");
  std::vector<Diagnostic> wrong;
  for (const auto& [place, name, token] : tokens) {
    const std::string own = token_named(config, name);
    if (own == token) continue;
    wrong.push_back({{},
                     0,
                     place,
                     "found '" + token + "', and the tokenizer has '" + own + "'",
                     "--tokenizer DIR, whose tokenizer_config.json has this " + name,
                     {}});
  }
  if (!wrong.empty()) throw InputError(std::move(wrong));
}

}  // namespace sftbench
