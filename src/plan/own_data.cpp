#include "plan/own_data.h"

#include <filesystem>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "sftbench/base/data_files.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/jinja/chat_template.h"
#include "sftbench/jinja/template.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// A sweep asks once for each of its cells.
std::string remembered_digest(const std::string& path) {
  using State = std::tuple<std::string, uintmax_t, fs::file_time_type>;
  static std::mutex mutex;
  static std::map<std::vector<State>, std::string> known;
  std::vector<State> state;
  for (const fs::path& file : data_files(path)) {
    state.emplace_back(file.string(), fs::file_size(file), fs::last_write_time(file));
  }
  const std::lock_guard lock(mutex);
  const auto found = known.find(state);
  return found != known.end() ? found->second : known[state] = digest_data(path);
}

}  // namespace

std::string own_dataset_name(const std::string& path) {
  const fs::path whole = fs::path(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).stem().string();
}

namespace {

// The digest of a file in place of its path.
void name_file(Json& inputs, const char* path_property, const char* digest_property) {
  const auto found = inputs.find(path_property);
  if (found == inputs.end()) return;
  const std::string path = found->get<std::string>();
  inputs.erase(path_property);
  try {
    inputs[digest_property] = remembered_digest(path);
  } catch (const std::exception&) {  // what cannot be read is refused where it is read
    inputs[digest_property] = path;
  }
}

// Sets by their content, too, and dataset_id by their names.
void name_mixture(Json& inputs) {
  const auto found = inputs.find("data_mixture");
  if (found == inputs.end()) return;
  Json mixture = Json::parse(found->get<std::string>(), nullptr, /*allow_exceptions=*/false);
  if (!mixture.is_object() || !mixture.contains("datasets")) return;  // refused where it is read
  std::vector<std::string> names;
  for (Json& set : mixture["datasets"]) {
    if (!set.is_object() || !set.contains("training_data_path")) return;
    names.push_back(own_dataset_name(set["training_data_path"].get<std::string>()));
    name_file(set, "training_data_path", "training_data");
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
    *found = remembered_digest(found->get<std::string>());
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
  throw RunError(ReasonCode::kData, "chat_template " + given +
                                        " is neither a file nor a template; a file of Jinja, or a "
                                        "text with {{ }} or {% %} works");
}

void name_own_data(Json& inputs) {
  name_chat_template(inputs);
  name_mixture(inputs);
  name_file(inputs, "validation_data_path", "validation_data");
  if (inputs.contains("training_data_path")) {
    inputs["dataset_id"] = own_dataset_name(inputs["training_data_path"].get<std::string>());
    name_file(inputs, "training_data_path", "training_data");
  }
}

}  // namespace sftbench
