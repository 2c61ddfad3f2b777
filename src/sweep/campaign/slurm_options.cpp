#include "campaign/slurm_options.h"

#include <algorithm>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

const std::map<std::string, std::string> kReserved = {
    {"array", "--workers N says how many tasks there are"},
    {"signal", "the script needs its own, to end the worker before the time limit"},
    {"wrap", "the script is what runs"}};

// One of them says in another way what the other says.
const std::map<std::string, std::vector<std::string>> kInPlaceOf = {
    {"cpus-per-task", {"exclusive"}},
    {"cpus-per-gpu", {"exclusive", "cpus-per-task"}},
    {"gres", {"gpus-per-node"}},
    {"gpus", {"gpus-per-node"}},
    {"gpus-per-task", {"gpus-per-node"}}};

void fail(std::vector<Diagnostic>& wrong, std::string message, std::string expected) {
  wrong.push_back({{}, 0, "--slurm", std::move(message), std::move(expected), {}});
}

bool is_long_name(const std::string& key) {
  return key.size() > 1 && std::all_of(key.begin(), key.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
         });
}

}  // namespace

SlurmOptions::SlurmOptions(const std::vector<std::string>& given,
                           const std::vector<std::string>& gpu_models) {
  std::vector<Diagnostic> wrong;
  for (const std::string& text : given) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos) {
      fail(wrong, "found '" + text + "'", "KEY=VALUE, and KEY= for an option without a value");
      continue;
    }
    std::string key = text.substr(0, equals);
    std::string model;
    if (const size_t colon = key.find(':'); colon != std::string::npos) {
      model = key.substr(0, colon);
      key.erase(0, colon + 1);
      if (std::find(gpu_models.begin(), gpu_models.end(), model) == gpu_models.end()) {
        wrong.push_back({{},
                         0,
                         "--slurm",
                         "no cell needs the GPU model '" + model + "'",
                         gpu_models.empty() ? "no model: all cells are of CPUs" : join(gpu_models),
                         nearest_spelling(model, gpu_models)});
        continue;
      }
    }
    key.erase(0, key.find_first_not_of('-'));
    const std::string value = text.substr(equals + 1);
    if (!is_long_name(key) || value.find_first_of("\n\r") != std::string::npos) {
      fail(wrong, "found '" + text + "'", "the long name of an option of sbatch, as partition=gpu");
    } else if (const auto reserved = kReserved.find(key); reserved != kReserved.end()) {
      fail(wrong, "'" + key + "' cannot be set: " + reserved->second, {});
    } else {
      (model.empty() ? for_all_ : by_model_[model])[key] = value;
    }
  }
  if (!wrong.empty()) throw InputError(std::move(wrong));
}

std::map<std::string, std::string> SlurmOptions::over(std::map<std::string, std::string> own,
                                                      const WorkerGroup& group) const {
  const auto lay_over = [&own](const std::map<std::string, std::string>& given) {
    for (const auto& [key, value] : given) {
      if (const auto found = kInPlaceOf.find(key); found != kInPlaceOf.end()) {
        for (const std::string& other : found->second) own.erase(other);
      }
      own[key] = value;
    }
  };
  lay_over(for_all_);
  const auto of_model = by_model_.find(group.need.gpu_model);
  if (of_model != by_model_.end()) lay_over(of_model->second);
  return own;
}

}  // namespace sftbench
