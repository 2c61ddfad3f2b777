#include "cli/engine_paths.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "sftbench/base/data_files.h"
#include "sftbench/base/error.h"
#include "sftbench/campaign/engines.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// Folders that a run makes.
const std::set<std::string> kMade = {"--save-model-dir", "--checkpoint-dir", "--output-dir"};
const std::set<std::string> kRead = {"--model", "--data", "--eval-data", "--tokenizer",
                                     "--resume-from-checkpoint"};

// "FOLDER:CONFIG:SPLIT" is a part of what is in a folder.
bool is_here(const std::string& text) {
  std::error_code error;
  return !text.empty() && fs::exists(data_place(text).path, error);
}

// That of the nearest folder around it that is there.
std::optional<dev_t> file_system_of(fs::path path) {
  std::error_code error;
  path = fs::absolute(path, error);
  while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return std::nullopt;
  return status.st_dev;
}

class Placing {
 public:
  Placing(bool ray, CampaignPlan& plan) : ray_(ray), plan_(plan) {}

  void place(WorkerOption& option) {
    if (!option.value) return;
    const bool made = kMade.count(option.name) > 0;
    if (option.name == "--set") return place_assignment(*option.value);
    if (!made && kRead.count(option.name) == 0) return;
    if (made || is_here(*option.value)) place(option.name, *option.value, *option.value);
  }

  // What is not on the command line travels as it stands.
  void require_found(const std::string& source, const std::string& path) {
    if (placed_.count(path) > 0 || !is_here(path)) return;
    std::string text = path;
    place(source, text, path);
    if (text == path || problems_.size() > refused_) return;
    add(source, path, "is relative, and workers have another working folder",
        fs::absolute(path).lexically_normal().string());
  }

  // A configuration of ado's may name what the image of the workers has.
  void require_absolute(const std::string& source, const std::string& path) {
    if (fs::path(path).is_absolute() || !is_here(path)) return;
    add(source, path, "is relative, and workers have another working folder", "an absolute path");
  }

  void throw_if_any() {
    if (!problems_.empty()) throw InputError(std::move(problems_));
  }

 private:
  void place_assignment(std::string& assignment) {
    const size_t equals = std::min(assignment.find('='), assignment.size());
    static const std::set<std::string> kProperties = {"training_data_path", "validation_data_path",
                                                      "tokenizer_name_or_path"};
    if (kProperties.count(assignment.substr(0, equals)) == 0 || equals == assignment.size()) return;
    const std::string path = assignment.substr(equals + 1);
    if (!is_here(path)) return;
    std::string text = path;
    place("--set " + assignment.substr(0, equals), text, path);
    assignment.replace(equals + 1, std::string::npos, text);
  }

  void place(const std::string& source, std::string& text, const std::string& given) {
    refused_ = problems_.size();
    placed_.insert(given);
    const fs::path path = given;
    const std::string whole = fs::absolute(path).lexically_normal().string();
    if (!ray_) {
      const std::string volume = std::string(kKubernetesVolume) + "/";
      if (path.is_absolute() && whole.rfind(volume, 0) == 0) return;
      return add(source, given, "is not on the volume that pods share",
                 "a path below " + volume + ", or a hub id");
    }
    if (path.is_absolute()) return;  // the user's word
    if (file_system_of(path) != file_system_of(plan_.output)) {
      return add(source, given, whole + " is not on the file system of --output",
                 "an absolute path that all nodes of the cluster see");
    }
    text = whole;
  }

  void add(const std::string& source, const std::string& path, const std::string& problem,
           std::string expected) {
    problems_.push_back(
        {{}, 0, source, "found '" + path + "', and " + problem, std::move(expected), {}});
  }

  bool ray_;
  CampaignPlan& plan_;
  std::set<std::string> placed_;
  std::vector<Diagnostic> problems_;
  size_t refused_ = 0;
};

}  // namespace

void add_data_paths(const MeasurementRequest& request, std::set<std::string>& paths) {
  for (const char* property :
       {"training_data_path", "validation_data_path", "tokenizer_name_or_path"}) {
    const auto given = request.inputs.find(property);
    if (given != request.inputs.end() && given->is_string()) paths.insert(*given);
  }
  const auto given = request.inputs.find("data_mixture");
  if (given == request.inputs.end() || !given->is_string()) return;
  const Json mixture = Json::parse(given->get<std::string>(), nullptr, /*allow_exceptions=*/false);
  if (!mixture.is_object() || !mixture.value("datasets", Json()).is_array()) return;
  for (const Json& set : mixture["datasets"]) {
    if (set.is_object()) paths.insert(set.value("training_data_path", std::string()));
  }
}

void place_paths(const std::string& engine, const LoadedSpace& loaded, const Selection& selection,
                 const std::set<std::string>& data, CampaignPlan& plan) {
  if (engine != "ray" && engine != "kubernetes") return;  // the others start in this folder
  Placing placing(engine == "ray", plan);
  for (WorkerOption& option : plan.options) placing.place(option);
  const std::string travels = selection.arguments_paths.empty() ? "SPACE" : "--arguments or SPACE";
  if (selection.model.empty()) placing.require_found(travels, loaded.file.model);
  for (const std::string& path : data) placing.require_found(travels, path);
  for (const auto& [name, formats] : loaded.settings.model_map) {
    for (const auto& [format, place] : formats)
      placing.require_absolute("--config model_map", place);
  }
  placing.require_absolute("--config data_directory", loaded.settings.data_directory.value_or(""));
  placing.require_absolute("--config hf_home", loaded.settings.hf_home.value_or(""));
  placing.throw_if_any();
}

}  // namespace sftbench
