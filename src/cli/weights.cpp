#include "cli/weights.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "cli/fetch_view.h"
#include "cli/hub_fetch.h"
#include "cli/number_checks.h"
#include "cli/progress.h"
#include "cli/record.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/checkpoint/merge_adapter.h"
#include "sftbench/huggingface/cache.h"
#include "sftbench/huggingface/check.h"
#include "sftbench/huggingface/model_list.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> given(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

// --- weights check -------------------------------------------------------------------------------

struct CheckArguments {
  std::string hf_home, format = "table";
  std::vector<std::string> names;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  bool remove = false;
};

std::vector<std::pair<std::string, std::string>> models_to_check(const CheckArguments& arguments,
                                                                 const fs::path& cache) {
  std::vector<std::pair<std::string, std::string>> models;
  if (arguments.names.empty()) {
    for (const std::string& id : cached_models(cache)) models.emplace_back(id, id);
    if (models.empty()) throw InputError("no models are in " + cache.string());
    return models;
  }
  for (const FetchRequest& request : find_models(arguments.names, Catalog::shipped().models)) {
    if (request.revision != "main") {
      throw InputError("'" + request.hub_id + "@" + request.revision +
                       "': what is checked is the snapshot that a run would use; leave out '@" +
                       request.revision + "'");
    }
    models.emplace_back(request.name, request.hub_id);
  }
  return models;
}

Table checked_table(const std::vector<CheckedModel>& models, bool people) {
  Table table{{"model", "hub_id", "files", "bytes", "status", "snapshot"}, {}};
  if (!people) table.columns.push_back("problems");
  for (const CheckedModel& model : models) {
    const char* status = model.problems.empty()   ? "right"
                         : model.snapshot.empty() ? "absent"
                                                  : "wrong";
    table.rows.push_back({model.name, model.hub_id, model.files,
                          size_cell(model.size_bytes, people), status, model.snapshot.string()});
    if (!people) table.rows.back().push_back(join(model.problems, "; "));
  }
  return table;
}

void remove_spoilt(const CheckedModel& model) {
  for (const fs::path& blob : model.spoilt) {
    std::error_code error;
    fs::remove(blob, error);
    if (error) {
      spdlog::error("cannot remove {}: {}", blob.string(), error.message());
    } else {
      spdlog::info("removed {}; get it again with: sftbench weights fetch {}", blob.string(),
                   model.hub_id);
    }
  }
}

int check_weights(const CheckArguments& arguments, const CommonOptions& common) {
  const OutputFormat format = output_format(arguments.format);
  const fs::path cache = hub_cache_directory(given(arguments.hf_home));
  FetchView view(std::cerr, !common.no_progress && spdlog::should_log(spdlog::level::info),
                 ::isatty(STDERR_FILENO) != 0);
  const std::vector<CheckedModel> models = check_models(
      models_to_check(arguments, cache), cache, arguments.threads,
      [&view](const CheckProgress& p) { view.show("verified", p.done_bytes, p.total_bytes); });
  view.finish();
  bool right = true;
  bool spoilt = false;
  for (const CheckedModel& model : models) {
    for (const std::string& problem : model.problems) spdlog::error("{}: {}", model.name, problem);
    right = right && model.problems.empty();
    spoilt = spoilt || !model.spoilt.empty();
    if (arguments.remove) remove_spoilt(model);
  }
  if (spoilt && !arguments.remove)
    spdlog::info(
        "--remove takes away the files whose hash is wrong, so that fetch gets them again");
  print_table(checked_table(models, is_for_people(format)), format);
  return right ? 0 : kFailedExitCode;
}

void add_check(CLI::App& parent, const CommonOptions& common, int& exit_code) {
  CLI::App* command =
      parent.add_subcommand("check", "verify what a Hugging Face cache directory has, offline");
  const auto arguments = std::make_shared<CheckArguments>();
  command->add_option("NAME", arguments->names,
                      "model of `sftbench models` or hub id (default: all that are there)");
  command
      ->add_option("-o,--output", arguments->hf_home,
                   "Hugging Face home (default: HF_HOME, else ~/.cache/huggingface)")
      ->type_name("HF_HOME");
  command->add_flag("--remove", arguments->remove, "remove files whose hash is wrong");
  command->add_option("--threads", arguments->threads, "files that are hashed at the same time")
      ->transform(whole_number(1, kMostThreads))
      ->capture_default_str();
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  command->footer(R"(
Exit status: 0 all models are whole and right; 2 usage or input error; 4 some
are not.

Examples:
  sftbench weights check
  sftbench weights check smollm2-135m)");
  command->callback(
      [arguments, &common, &exit_code] { exit_code = check_weights(*arguments, common); });
}

// --- weights merge -------------------------------------------------------------------------------

struct MergeArguments {
  std::string adapter, model, output;
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
};

// A folder, or the snapshot of a hub id. `key`: who says it.
fs::path base_folder(const std::string& key, const std::string& given_base) {
  std::error_code error;
  if (fs::is_directory(given_base, error)) return given_base;
  if (is_hub_id(given_base)) {
    const auto snapshot = hub_snapshot(hub_cache_directory(std::nullopt), given_base);
    if (snapshot) return *snapshot;
  }
  throw InputError({{.file = {},
                     .line = 0,
                     .key = key,
                     .message = given_base + " is no folder, and no model of the hub that is here",
                     .expected = "the folder of the base model: --model DIR, or first "
                                 "sftbench weights fetch ORG/NAME",
                     .nearest = {}}});
}

fs::path base_of(const MergeArguments& arguments) {
  if (!arguments.model.empty()) return base_folder("--model", arguments.model);
  const std::string named = base_model_of(arguments.adapter);
  if (!named.empty()) return base_folder("base_model_name_or_path of the adapter", named);
  throw InputError({{.file = (fs::path(arguments.adapter) / "adapter_config.json").string(),
                     .line = 0,
                     .key = "base_model_name_or_path",
                     .message = "names no base model",
                     .expected = "--model DIR",
                     .nearest = {}}});
}

int merge_weights(const MergeArguments& arguments, const CommonOptions& common) {
  FetchView view(std::cerr, !common.no_progress && spdlog::should_log(spdlog::level::info),
                 ::isatty(STDERR_FILENO) != 0);
  const fs::path base = base_of(arguments);
  const MergeSummary merged = merge_adapter(
      {arguments.adapter, base, arguments.output, arguments.threads,
       [&view](const MergeProgress& p) { view.show("merged", p.done_bytes, p.total_bytes); }});
  view.finish();
  const std::string own = merged.replaced == 0
                              ? std::string()
                              : ", " + counted(merged.replaced, "tensor") + " of the adapter's own";
  spdlog::info("wrote {}: {}, {}; {} of {} adapted{}; beside them {}", arguments.output,
               counted(merged.tensors, "tensor"),
               bytes_text(static_cast<double>(merged.size_bytes)),
               counted(merged.adapted, "linear"), base.string(), own, join(merged.copied));
  return 0;
}

void add_merge(CLI::App& parent, const CommonOptions& common, int& exit_code) {
  CLI::App* command =
      parent.add_subcommand("merge", "add a LoRA adapter to the model it was trained on");
  const auto arguments = std::make_shared<MergeArguments>();
  command
      ->add_option("ADAPTER", arguments->adapter,
                   "folder with adapter_config.json and adapter_model.safetensors")
      ->type_name("DIR")
      ->required();
  command
      ->add_option("-o,--output", arguments->output,
                   "folder to write, which transformers loads as a model; new or empty")
      ->type_name("DIR")
      ->required();
  command
      ->add_option("--model", arguments->model,
                   "the base model, a folder or a hub id that is here; default: the one that the "
                   "adapter names")
      ->type_name("DIR|ID");
  command->add_option("--threads", arguments->threads, "that compute")
      ->transform(whole_number(1, kMostThreads))
      ->capture_default_str();
  command->footer(R"(
As peft's merge_and_unload, one tensor after the other: memory holds the largest
one. The dtype is the base's. The adapter's own tokenizer files come first.

Examples:
  sftbench weights merge ./adapter -o ./merged
  sftbench weights merge ./adapter --model ./my-llama -o ./merged)");
  command->callback(
      [arguments, &common, &exit_code] { exit_code = merge_weights(*arguments, common); });
}

}  // namespace

void add_weights_command(CLI::App& app, const CommonOptions& common, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("weights", "fetch, verify and merge the weights of models");
  command->require_subcommand(1);
  command->footer(R"(
Examples:
  sftbench weights fetch smollm2-135m
  sftbench weights check
  sftbench weights merge ./adapter -o ./merged)");
  add_fetch_command(*command, common, RepositoryKind::kModel, exit_code);
  add_check(*command, common, exit_code);
  add_merge(*command, common, exit_code);
}

}  // namespace sftbench
