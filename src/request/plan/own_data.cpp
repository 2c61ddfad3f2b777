#include "plan/own_data.h"

#include <filesystem>
#include <vector>

#include "sftbench/base/data_files.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/huggingface/cache.h"
#include "sftbench/huggingface/datasets.h"
#include "sftbench/jinja/chat_template.h"
#include "sftbench/jinja/template.h"

namespace sftbench {

std::string own_dataset_name(const std::string& given) {
  if (is_dataset_name(given)) return name_of(dataset_name(given));
  const DataPlace place = data_place(given);
  std::filesystem::path whole = place.path.lexically_normal();
  if (!whole.has_filename()) whole = whole.parent_path();
  const std::string dataset = dataset_of_snapshot(whole);
  return (dataset.empty() ? whole.stem().string() : dataset) + place.part;
}

namespace {

namespace fs = std::filesystem;

// The digest of a file, or of a dataset of the hub, in place of its path.
void name_file(Json& inputs, const char* path_property, const char* digest_property,
               const std::optional<std::string>& hf_home) {
  const auto given = inputs.find(path_property);
  if (given == inputs.end()) return;
  const std::string path = given->get<std::string>();
  inputs.erase(path_property);
  try {
    const auto found = find_data(hub_cache_directory(hf_home), path);
    inputs[digest_property] = digest_data(found ? found->path : path);
  } catch (const std::exception&) {  // what cannot be read is refused where it is read
    inputs[digest_property] = path;
  }
}

// Sets by their content, too, and dataset_id by their names.
void name_mixture(Json& inputs, const std::optional<std::string>& hf_home) {
  const auto found = inputs.find("data_mixture");
  if (found == inputs.end()) return;
  Json mixture = Json::parse(found->get<std::string>(), nullptr, /*allow_exceptions=*/false);
  if (!mixture.is_object() || !mixture.contains("datasets")) return;  // refused where it is read
  std::vector<std::string> names;
  for (Json& set : mixture["datasets"]) {
    if (!set.is_object() || !set.contains("training_data_path")) return;
    names.push_back(own_dataset_name(set["training_data_path"].get<std::string>()));
    name_file(set, "training_data_path", "training_data", hf_home);
  }
  inputs["dataset_id"] = join(names, "+");
  *found = json_text(mixture);
}

void name_chat_template(Json& inputs) {
  const auto found = inputs.find("chat_template");
  if (found == inputs.end() || !found->is_string() ||
      jinja::is_template(found->get_ref<const std::string&>()))
    return;
  try {
    *found = digest_data(found->get<std::string>());
  } catch (const std::exception&) {  // refused where it is read
  }
}

}  // namespace

std::string chat_template(const std::string& given, const std::string& tokenizer_directory) {
  if (given.empty()) {
    ChatTemplateText own;
    if (!tokenizer_directory.empty()) own = chat_template_of(tokenizer_directory);
    if (!own.text.empty()) return own.text;
    throw RunError(ReasonCode::kData, no_chat_template(tokenizer_directory));
  }
  if (jinja::is_template(given)) return given;
  std::error_code error;
  if (fs::is_regular_file(given, error)) {
    try {
      return read_chat_template(given);
    } catch (const InputError& problem) {
      throw RunError(ReasonCode::kData, problem.what());
    }
  }
  if (!tokenizer_directory.empty()) {
    if (std::string named = chat_template_of(tokenizer_directory, given); !named.empty())
      return named;
  }
  throw RunError(ReasonCode::kData, "chat_template " + given +
                                        " is neither a file nor a template; a file of Jinja, or a "
                                        "text with {{ }} or {% %} works");
}

void name_own_data(Json& inputs, const std::optional<std::string>& hf_home) {
  name_chat_template(inputs);
  name_mixture(inputs, hf_home);
  name_file(inputs, "validation_data_path", "validation_data", hf_home);
  if (inputs.contains("training_data_path")) {
    inputs["dataset_id"] = own_dataset_name(inputs["training_data_path"].get<std::string>());
    name_file(inputs, "training_data_path", "training_data", hf_home);
  }
}

}  // namespace sftbench
