#include "cli/worker_options.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

const std::vector<std::string> kFiles = {"--config", "--operation", "--arguments", "--deepspeed"};
// A file, or the text itself.
constexpr const char* kFileOrText = "--chat-template";
// Of `run` they say something else.
const std::vector<std::string> kNotOfRun = {"--timeout", "--stall-timeout", "--no-progress"};

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::string name_of(const CLI::Option& option) {
  if (!option.get_lnames().empty()) return "--" + option.get_lnames().front();
  return option.get_snames().empty() ? "" : "-" + option.get_snames().front();
}

bool is_of_run(const CLI::App& run, const std::string& name) {
  if (contains(kNotOfRun, name)) return false;
  return name.empty() || run.get_option_no_throw(name) != nullptr ||
         run.get_parent()->get_option_no_throw(name) != nullptr;
}

void append(const CLI::Option& option, const CLI::App& run, std::vector<WorkerOption>& options) {
  WorkerOption one;
  const bool positional = option.get_positional();
  one.name = positional ? "" : name_of(option);
  one.is_file = positional || contains(kFiles, one.name);
  one.of_run = is_of_run(run, one.name);
  if (option.get_items_expected_max() == 0) {
    options.push_back(std::move(one));
    return;
  }
  for (const std::string& value : option.results()) {
    one.value = value;
    std::error_code error;
    if (one.name == kFileOrText) one.is_file = std::filesystem::is_regular_file(value, error);
    options.push_back(one);
  }
}

}  // namespace

std::vector<WorkerOption> worker_options(const CLI::App& command,
                                         const std::vector<std::string>& left_out) {
  std::vector<WorkerOption> options;
  const CLI::App& run = *command.get_parent()->get_subcommand("run");
  for (const CLI::App* app = &command; app != nullptr; app = app->get_parent()) {
    for (const CLI::Option* option : app->get_options()) {
      if (option->count() > 0 && !contains(left_out, name_of(*option)))
        append(*option, run, options);
    }
  }
  return options;
}

std::map<std::string, std::string> worker_environment(const std::vector<std::string>& assignments) {
  std::map<std::string, std::string> environment;
  std::vector<Diagnostic> wrong;
  for (const std::string& assignment : assignments) {
    const size_t equals = assignment.find('=');
    const std::string name = assignment.substr(0, equals);
    const bool is_name = !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
                         std::all_of(name.begin(), name.end(), [](unsigned char c) {
                           return std::isalnum(c) != 0 || c == '_';
                         });
    if (equals == std::string::npos || !is_name) {
      wrong.push_back({{}, 0, "--env", "found '" + assignment + "'", "NAME=VALUE", {}});
    } else {
      environment[name] = assignment.substr(equals + 1);
    }
  }
  if (!wrong.empty()) throw InputError(std::move(wrong));
  return environment;
}

}  // namespace sftbench
