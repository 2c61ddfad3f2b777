#include "cli/worker_options.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <set>
#include <sstream>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/base/yaml.h"

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

bool is_variable(const std::string& name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(),
                     [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

// HF_TOKEN, MLFLOW_TRACKING_PASSWORD, WANDB_API_KEY. HF_TOKEN_PATH is but a place.
bool names_a_secret(const std::string& name) {
  static const std::set<std::string> kSecrets = {"TOKEN",  "PASSWORD", "PASSWD",
                                                 "SECRET", "KEY",      "HEADERS"};
  static const std::set<std::string> kPlaces = {"FILE", "PATH", "DIR"};
  std::istringstream parts(name);
  bool secret = false, place = false;
  for (std::string part; std::getline(parts, part, '_');) {
    for (char& c : part) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    secret = secret || kSecrets.count(part) != 0;
    place = kPlaces.count(part) != 0;
  }
  return secret && !place;
}

// hub_token, comet_api_key. eos_token is text.
bool is_key_of_secret(const std::string& key) {
  constexpr std::array kEndings = {"hub_token", "auth_token", "access_token", "api_key",
                                   "password"};
  return std::any_of(kEndings.begin(), kEndings.end(), [&key](std::string_view ending) {
    return key.size() >= ending.size() &&
           key.compare(key.size() - ending.size(), ending.size(), ending) == 0;
  });
}

void find_secrets(const YamlNode& node, const std::string& key, Diagnostics& wrong) {
  constexpr size_t kTokenCharacters = 20;  // of a token of the hub, at the least
  for (const YamlNode& item : node.items) find_secrets(item, key, wrong);
  for (const auto& [name, member] : node.members) find_secrets(member, name, wrong);
  if (!node.value.is_string() || node.text.empty()) return;
  const bool is_token = node.text.rfind("hf_", 0) == 0 && node.text.size() >= kTokenCharacters;
  if (!is_token && !is_key_of_secret(key) && without_secrets(node.text) == node.text) return;
  wrong.error(node.line, key, "holds a secret, and others can read the files that workers get",
              "an environment variable, as --env HF_TOKEN (docs/guide/engines.md, \"Secrets\")");
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

WorkerEnvironment worker_environment(const std::vector<std::string>& assignments, bool shared) {
  WorkerEnvironment environment;
  std::vector<Diagnostic> wrong;
  for (const std::string& assignment : assignments) {
    const size_t equals = std::min(assignment.find('='), assignment.size());
    const std::string name = assignment.substr(0, equals);
    const std::string value = equals < assignment.size() ? assignment.substr(equals + 1) : "";
    if (!is_variable(name)) {
      wrong.push_back({{}, 0, "--env", "found '" + assignment + "'", "NAME=VALUE", {}});
    } else if (equals == assignment.size()) {
      environment.secrets.push_back(name);
    } else if (shared && !value.empty() &&
               (names_a_secret(name) || without_secrets(value) != value)) {
      wrong.push_back({{},
                       0,
                       "--env",
                       name + " looks like a secret, and others can read what the engine gets",
                       "--env " + name + " without a value (docs/guide/engines.md, \"Secrets\")",
                       {}});
    } else {
      environment.values[name] = value;
    }
  }
  if (!wrong.empty()) throw InputError(std::move(wrong));
  return environment;
}

void require_no_secrets(const std::vector<WorkerOption>& options) {
  std::vector<Diagnostic> wrong;
  for (const WorkerOption& option : options) {
    const std::string value = option.value.value_or("");
    if (option.is_file || without_secrets(value) == value) continue;
    wrong.push_back({{},
                     0,
                     option.name,
                     "'" + without_secrets(value) +
                         "' holds a secret, and others can read what the engine gets",
                     option.name == "--track"
                         ? "--env MLFLOW_TRACKING_TOKEN, or --env MLFLOW_TRACKING_USERNAME and "
                           "--env MLFLOW_TRACKING_PASSWORD (docs/guide/engines.md, \"Secrets\")"
                         : "an address without user, password and query",
                     {}});
  }
  if (!wrong.empty()) throw InputError(std::move(wrong));
}

void require_no_secrets(const std::map<std::string, std::string>& files) {
  for (const auto& [name, content] : files) {
    Diagnostics wrong(name);
    try {
      find_secrets(parse_yaml(content, name), {}, wrong);
    } catch (const InputError&) {
      continue;  // a template; where it should be YAML, its reader has said so
    }
    wrong.throw_if_failed();
  }
}

}  // namespace sftbench
