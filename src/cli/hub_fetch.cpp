#include "cli/hub_fetch.h"

#include <signal.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <atomic>
#include <iostream>
#include <memory>

#include "cli/fetch_view.h"
#include "cli/number_checks.h"
#include "cli/progress.h"
#include "cli/record.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/huggingface/cache.h"
#include "sftbench/huggingface/datasets.h"
#include "sftbench/huggingface/endpoint.h"
#include "sftbench/huggingface/model_list.h"
#include "sftbench/launch/interrupt.h"

namespace sftbench {
namespace {

constexpr size_t kShortCommit = 12;

std::optional<std::string> hf_home_of(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

// The first Ctrl-C or SIGTERM asks the transfer to end, which leaves everything such that the same
// command goes on; the second ends the process.
class StopSignals {
 public:
  StopSignals() {
    struct sigaction action {};
    action.sa_handler = [](int) { asked_ = true; };
    action.sa_flags = SA_RESETHAND | SA_RESTART;
    ::sigaction(SIGINT, &action, &before_int_);
    ::sigaction(SIGTERM, &action, &before_term_);
  }
  ~StopSignals() {
    ::sigaction(SIGINT, &before_int_, nullptr);
    ::sigaction(SIGTERM, &before_term_, nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  static bool asked() { return asked_; }

 private:
  static inline std::atomic<bool> asked_ = false;
  struct sigaction before_int_ {};
  struct sigaction before_term_ {};
};

struct FetchArguments {
  RepositoryKind kind = RepositoryKind::kModel;
  std::string list, revision, hf_home, endpoint, format = "table";
  std::vector<std::string> names;
  bool config_only = false;
  int connections = FetchSettings().connections;
  int retries = FetchSettings().retries;
};

[[noreturn]] void refuse_names(std::string key, std::string message, std::string expected) {
  throw InputError({{.file = {},
                     .line = 0,
                     .key = std::move(key),
                     .message = std::move(message),
                     .expected = std::move(expected),
                     .nearest = {}}});
}

std::vector<FetchRequest> models_of(const FetchArguments& arguments) {
  if (arguments.list.empty()) {
    if (!arguments.names.empty()) return find_models(arguments.names, Catalog::shipped().models);
    refuse_names({}, "nothing says which models to fetch",
                 "names of `sftbench models`, hub ids, or -i models.yaml");
  }
  std::vector<std::string> notes;
  const std::vector<FetchRequest> listed = read_model_list(arguments.list, notes);
  for (const std::string& note : notes) spdlog::info("{}: {}", arguments.list, note);
  return choose_models(listed, arguments.names, arguments.list);
}

std::vector<FetchRequest> datasets_of(const FetchArguments& arguments) {
  if (arguments.names.empty())
    refuse_names({}, "nothing says which datasets to fetch", "hub ids, as ORG/NAME");
  std::vector<FetchRequest> requests;
  for (const std::string& name : arguments.names) {
    const std::string problem = dataset_name_problem(name);
    if (!problem.empty())
      refuse_names({}, problem, "ORG/NAME, ORG/NAME@REVISION or ORG/NAME:CONFIG:SPLIT");
    requests.push_back(dataset_request(name));
    if (arguments.revision.empty()) continue;
    if (name.find('@') != std::string::npos)
      refuse_names("--revision", "is given, and " + name + " names one, too", "one of them");
    const std::string id = requests.back().hub_id;
    if (const std::string wrong = hub_name_problem(id + "@" + arguments.revision); !wrong.empty())
      refuse_names("--revision", wrong, "a branch, a tag or a commit");
    requests.back().revision = arguments.revision;
  }
  return requests;
}

void warn_of_plain_http(const HubEndpoint& endpoint) {
  const bool local = endpoint.url.rfind("http://127.0.0.1", 0) == 0 ||
                     endpoint.url.rfind("http://localhost", 0) == 0;
  if (endpoint.token.empty() || local || endpoint.url.rfind("http://", 0) != 0) return;
  spdlog::warn("{} is not encrypted: the token of {} can be read on the way",
               shown_url(endpoint.url), endpoint.token_origin);
}

Table fetched_table(const std::vector<FetchedRepository>& fetched, RepositoryKind kind,
                    bool people) {
  Table table{{kind == RepositoryKind::kModel ? "model" : "dataset", "hub_id", "commit", "files",
               "bytes", "fetched_bytes", "status", "snapshot"},
              {}};
  if (!people) table.columns.push_back("problem");
  for (const FetchedRepository& one : fetched) {
    table.rows.push_back({one.request.name, one.request.hub_id,
                          people ? one.commit.substr(0, kShortCommit) : one.commit, one.files,
                          size_cell(one.size_bytes, people),
                          size_cell(one.transferred_bytes, people),
                          one.problem.empty() ? "complete" : "incomplete", one.snapshot.string()});
    if (!people) table.rows.back().push_back(one.problem.empty() ? Json() : Json(one.problem));
  }
  return table;
}

int fetch(const FetchArguments& arguments, const CommonOptions& common) {
  const OutputFormat format = output_format(arguments.format);
  std::vector<FetchRequest> requests =
      arguments.kind == RepositoryKind::kModel ? models_of(arguments) : datasets_of(arguments);
  for (FetchRequest& request : requests) request.weights = !arguments.config_only;
  FetchView view(std::cerr, !common.no_progress && spdlog::should_log(spdlog::level::info),
                 ::isatty(STDERR_FILENO) != 0);
  FetchSettings settings;
  settings.endpoint = find_hub_endpoint(arguments.endpoint, hf_home_of(arguments.hf_home));
  settings.cache = hub_cache_directory(hf_home_of(arguments.hf_home));
  settings.connections = arguments.connections;
  settings.retries = arguments.retries;
  settings.cancelled = [] { return StopSignals::asked(); };
  settings.log = [&view](FetchLog level, const std::string& text) { view.log(level, text); };
  settings.progress = [&view](const FetchProgress& progress) { view.show(progress); };
  warn_of_plain_http(settings.endpoint);

  const StopSignals signals;
  const FetchOutcome outcome = fetch_repositories(requests, settings);
  view.finish();
  bool whole = true;
  for (const FetchedRepository& one : outcome.repositories) {
    if (one.problem.empty()) continue;
    whole = false;
    spdlog::error("{}: {}", one.request.name, one.problem);
  }
  print_table(fetched_table(outcome.repositories, arguments.kind, is_for_people(format)), format);
  if (outcome.interrupted) return kInterruptedExitCode;
  return whole ? 0 : kFailedExitCode;
}

void add_model_names(CLI::App& command, FetchArguments& arguments) {
  command.description("download models into a Hugging Face cache directory");
  command.add_option("NAME", arguments.names,
                     "model of `sftbench models`, hub id or ORG/NAME@REVISION; with -i: those "
                     "of the file");
  command.add_option("-i,--input", arguments.list, "models.yaml: name -> {Vanilla: ORG/NAME}")
      ->type_name("FILE");
  command.add_flag("--config-only", arguments.config_only,
                   "no weights: a prediction needs the configuration, and --weights random the "
                   "tokenizer, too");
  command.footer(R"(
A token, for models that are gated or private, is read from HF_TOKEN, the file
that HF_TOKEN_PATH names, or HF_HOME/token. What was interrupted is continued by
the same command.

Exit status: 0 all models are whole; 2 usage or input error; 4 some are not;
130 interrupted.

Examples:
  sftbench weights fetch smollm2-135m
  sftbench weights fetch --config-only Qwen/Qwen2.5-Coder-7B-Instruct
  sftbench weights fetch -i models.yaml -o /my/hf_home
  sftbench weights fetch ibm-granite/granite-3.1-2b-base@main)");
}

void add_dataset_names(CLI::App& command, FetchArguments& arguments) {
  command.description("download datasets of the hub into a Hugging Face cache directory");
  command.add_option("NAME", arguments.names,
                     "hub id as ORG/NAME, behind it @REVISION, :CONFIG, :CONFIG:SPLIT or ::SPLIT");
  command
      .add_option("--revision", arguments.revision,
                  "branch, tag or commit of names without one (main)")
      ->type_name("NAME");
  command.footer(R"(
What comes is README.md, which may say what the data are, and the files of the
split train, or of SPLIT: JSON, JSON Lines, Parquet or Arrow. The command reads
tokens and goes on after an interruption as `sftbench weights fetch` does.

Exit status: 0 all is whole; 2 usage or input error; 4 something is not;
130 interrupted.

Examples:
  sftbench dataset fetch BAAI/Infinity-Instruct:Gen
  sftbench dataset fetch HuggingFaceH4/ultrachat_200k::train_sft
  sftbench run --model ./my-llama --data HuggingFaceH4/ultrachat_200k::train_sft)");
}

}  // namespace

void add_fetch_command(CLI::App& parent, const CommonOptions& common, RepositoryKind kind,
                       int& exit_code) {
  CLI::App* command = parent.add_subcommand("fetch");
  const auto arguments = std::make_shared<FetchArguments>();
  arguments->kind = kind;
  if (kind == RepositoryKind::kModel) {
    add_model_names(*command, *arguments);
  } else {
    add_dataset_names(*command, *arguments);
  }
  command
      ->add_option("-o,--output", arguments->hf_home,
                   "Hugging Face home (default: HF_HOME, else ~/.cache/huggingface)")
      ->type_name("HF_HOME");
  command
      ->add_option("--endpoint", arguments->endpoint,
                   "hub to fetch from (default: HF_ENDPOINT, else https://huggingface.co)")
      ->type_name("URL");
  command->add_option("--connections", arguments->connections, "files that come at the same time")
      ->transform(whole_number(1, 64))
      ->capture_default_str();
  command
      ->add_option("--retries", arguments->retries, "of a request that fails, with growing waits")
      ->transform(whole_number(0, 100))
      ->capture_default_str();
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  command->callback([arguments, &common, &exit_code] { exit_code = fetch(*arguments, common); });
}

void add_fetch_option(CLI::App& command, bool& fetch) {
  command.add_flag("--fetch", fetch,
                   "fetch models and datasets of the hub that are not here before anything is "
                   "measured, as `sftbench weights fetch` and `sftbench dataset fetch` do");
}

FetchProblems fetch_absent(const std::vector<FetchRequest>& requests,
                           const std::optional<std::string>& hf_home, bool shows_progress) {
  FetchProblems problems;
  if (requests.empty()) return problems;
  std::vector<std::string> names;
  for (const FetchRequest& request : requests) {
    const std::string problem = hub_name_problem(request.hub_id);
    if (!problem.empty())
      throw InputError({{{}, 0, "--fetch", request.name + ": " + problem, {}, {}}});
    names.push_back(request.name);
  }
  spdlog::info("not here, so fetched: {}", join(names, ", "));
  FetchView view(std::cerr, shows_progress && spdlog::should_log(spdlog::level::info),
                 ::isatty(STDERR_FILENO) != 0);
  FetchSettings settings;
  settings.endpoint = find_hub_endpoint({}, hf_home);
  settings.cache = hub_cache_directory(hf_home);
  settings.log = [&view](FetchLog level, const std::string& text) { view.log(level, text); };
  settings.progress = [&view](const FetchProgress& progress) { view.show(progress); };
  warn_of_plain_http(settings.endpoint);
  for (const FetchedRepository& one : fetch_repositories(requests, settings).repositories) {
    const bool model = one.request.kind == RepositoryKind::kModel;
    if (!one.problem.empty()) (model ? problems.models : problems.datasets).push_back(one.problem);
  }
  view.finish();
  return problems;
}

bool is_for_people(OutputFormat format) {
  return format == OutputFormat::kTable || format == OutputFormat::kMarkdown;
}

Json size_cell(uint64_t size_bytes, bool people) {
  return people ? Json(bytes_text(static_cast<double>(size_bytes))) : Json(size_bytes);
}

}  // namespace sftbench
