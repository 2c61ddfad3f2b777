#include "plan/own_model.h"

#include <exception>
#include <filesystem>
#include <functional>
#include <optional>

#include "sftbench/base/data_files.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/kept_digest.h"
#include "sftbench/checkpoint/weights_digest.h"
#include "sftbench/data/token_cache.h"
#include "sftbench/huggingface/cache.h"
#include "sftbench/plan/content_names.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfig = "model_config";
constexpr const char* kWeights = "model_weights";
constexpr const char* kTokenizer = "model_tokenizer";
constexpr const char* kTemplates = "model_templates";
constexpr const char* kOtherTokenizer = "tokenizer_name_or_path";

using Digest = std::function<std::string()>;

void put(Json& inputs, const char* name, const Digest& of) {
  try {
    inputs[name] = of();
  } catch (const std::exception&) {  // refused where it is read
  }
}

std::optional<fs::path> folder_of(const std::string& place, const ResolveOptions& options) {
  std::error_code error;
  if (fs::is_directory(place, error)) return place;
  if (!is_hub_id(place)) return std::nullopt;
  return hub_snapshot(hub_cache_directory(options.hf_home), place);
}

bool names_column(const Json& inputs, const char* column) {
  const auto given = inputs.find(column);
  if (given != inputs.end() && given->is_string() && !given->get<std::string>().empty())
    return true;
  const auto mixture = inputs.find("data_mixture");
  return mixture != inputs.end() && mixture->get<std::string>().find(column) != std::string::npos;
}

// How messages and images become tokens. tokenizer_config.json, which may hold a template, too, is
// among the tokenizer's files.
std::string templates_digest(const fs::path& folder) {
  std::string sums;
  for (const char* name : {"chat_template.jinja", "chat_template.json", "processor_config.json",
                           "preprocessor_config.json"}) {
    const fs::path file = folder / name;
    sums += fs::exists(file) ? kept_digest(file) : "-";
  }
  return digest(sums);
}

}  // namespace

void name_own_model(Json& inputs, const ResolveOptions& options) {
  const std::string& place =
      options.model_path.empty() ? inputs.at("model_name").get<std::string>() : options.model_path;
  const std::optional<fs::path> folder = folder_of(place, options);
  if (!folder) return;  // a model of the hub that is not at hand
  put(inputs, kConfig, [&] { return kept_digest(*folder / "config.json"); });
  if (options.weights != "random" && options.backend != kBackendSimulate) {
    put(inputs, kWeights, [&] { return weights_digest(*folder); });
  }
  std::optional<fs::path> tokenizer = folder;
  if (const auto other = inputs.find(kOtherTokenizer);
      other != inputs.end() && other->is_string()) {
    tokenizer = folder_of(other->get<std::string>(), options);
    if (!tokenizer) return;
    put(inputs, kOtherTokenizer, [&] { return tokenizer_digest(*tokenizer); });
  } else if (fs::exists(*tokenizer / "tokenizer.json")) {
    put(inputs, kTokenizer, [&] { return tokenizer_digest(*tokenizer); });
  }
  const bool asks_folder =
      names_column(inputs, "dataset_image_field") ||
      (names_column(inputs, "conversation_column") && !inputs.contains("chat_template"));
  if (asks_folder) put(inputs, kTemplates, [&] { return templates_digest(*tokenizer); });
}

bool is_idle_name(std::string_view input, const std::function<bool(std::string_view)>& has) {
  if (input == "model_name") return has(kConfig);
  return input == "dataset_id" && has(kConfig) && (has("training_data") || has("data_mixture"));
}

Json without_names(const Json& inputs) {
  const auto has = [&](std::string_view name) { return inputs.contains(name); };
  Json telling = Json::object();
  for (const auto& [name, value] : inputs.items()) {
    if (!is_idle_name(name, has)) telling[name] = value;
  }
  return telling;
}

namespace {

class Renewal {
 public:
  explicit Renewal(TrainingJob& job) : job_(job) {}

  std::vector<std::string> renew() {
    Json& inputs = job_.inputs;
    renew(inputs, "training_data", job_.data.path, digest_data);
    renew(inputs, "validation_data", job_.evaluation.path, digest_data);
    renew_mixture();
    renew(inputs, kWeights, job_.model.weights_directory, weights_digest);
    const bool other = inputs.contains(kConfig) && inputs.contains(kOtherTokenizer);
    renew(inputs, other ? kOtherTokenizer : kTokenizer, job_.model.tokenizer_directory,
          tokenizer_digest);
    return std::move(renewed_);
  }

 private:
  void renew(Json& inputs, const char* name, const std::string& path,
             std::string (*digest_of)(const fs::path&)) {
    const auto before = inputs.find(name);
    if (before == inputs.end() || path.empty()) return;
    try {
      const std::string now = digest_of(path);
      if (*before == now) return;
      *before = now;
      const std::string files = "the files of " + path;
      if (renewed_.empty() || renewed_.back() != files) renewed_.push_back(files);
    } catch (const std::exception&) {  // refused where it is read
    }
  }

  void renew_mixture() {
    const auto found = job_.inputs.find("data_mixture");
    if (found == job_.inputs.end() || job_.data.mixture.empty()) return;
    Json mixture = Json::parse(found->get<std::string>(), nullptr, /*allow_exceptions=*/false);
    const Json& sets = job_.data.mixture.at("sets");
    if (!mixture.is_object() || mixture.value("datasets", Json()).size() != sets.size()) return;
    for (size_t i = 0; i < sets.size(); ++i) {
      renew(mixture["datasets"][i], "training_data", sets[i].at("path").get<std::string>(),
            digest_data);
    }
    *found = json_text(mixture);
  }

  TrainingJob& job_;
  std::vector<std::string> renewed_;
};

}  // namespace

std::vector<std::string> renew_content(TrainingJob& job) {
  return Renewal(job).renew();
}

}  // namespace sftbench
