// sftbench dataset count DATASET: the tokens of its entries, and the cache of them.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <thread>
#include <vector>

#include "cli/dataset_commands.h"
#include "cli/dataset_lengths.h"
#include "cli/given_data.h"
#include "cli/number_checks.h"
#include "cli/record.h"
#include "sftbench/base/data_files.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

struct CountArguments {
  DatasetForms forms;
  std::string cache, format = "table";
  int64_t model_max_length = 0;  // 0: not truncated
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
};

// The counts are the answer also where they cannot be kept.
bool save(TokenCountCache& cache) {
  try {
    cache.save();
    return true;
  } catch (const InputError& error) {
    spdlog::warn("the counts are not kept: {}", error.what());
    return false;
  }
}

Table count_table(const CountArguments& arguments, bool progress_shown,
                  const InterruptNote& interrupts) {
  const fs::path path = require_dataset("dataset", arguments.forms.dataset);
  CountedFile file(path, arguments.forms, arguments.model_max_length);
  const Tokenizer tokenizer = tokenizer_of(arguments.forms);
  const fs::path cache_directory =
      arguments.cache.empty() ? user_cache_directory() / "tokens" : fs::path(arguments.cache);
  TokenCountCache cache(cache_directory,
                        {.tokenizer_digest = tokenizer_digest(arguments.forms.tokenizer),
                         .dataset_digest = digest_data(path),
                         .text_field = file.counted(),
                         .entries = file.size()});
  spdlog::info("counting {} of {}, {} of them counted before",
               counted(file.size(), "entry", "entries"), path.string(), cache.known());
  std::vector<int64_t> counts;
  try {
    counts = file.count(tokenizer, arguments.threads, cache,
                        watched(interrupts, progress_shown, "entries counted", file.size()));
  } catch (const DatasetInterrupted&) {
    save(cache);
    throw;
  }
  const bool kept = save(cache);
  file.tell_account();

  if (arguments.model_max_length > 0) {
    for (int64_t& count : counts) count = std::min(count, arguments.model_max_length);
  }
  const int64_t tokens = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return {{"dataset", "entries", "tokens", "min", "mean", "max", "cache"},
          {{path.string(), file.size(), tokens, *least,
            static_cast<double>(tokens) / static_cast<double>(file.size()), *most,
            kept ? Json(cache.path().string()) : Json()}}};
}

}  // namespace

void add_count_command(CLI::App& parent, const CLI::App& app, int& exit_code) {
  CLI::App* command =
      parent.add_subcommand("count", "count the tokens of a dataset and cache the counts");
  const auto arguments = std::make_shared<CountArguments>();
  add_dataset_form_options(*command, arguments->forms, "dataset");
  command
      ->add_option("--model-max-length", arguments->model_max_length,
                   "count each entry up to this many tokens")
      ->transform(whole_number(1));
  command->add_option("--cache", arguments->cache,
                      "directory of the counts (default: in the user's cache directory)");
  command->add_option("--threads", arguments->threads, "threads")
      ->transform(whole_number(1, kMostThreads))
      ->capture_default_str();
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  command->footer(R"(
Examples:
  sftbench dataset count news-tokens-16384plus-entries-4096
  sftbench dataset count chats.jsonl --tokenizer DIR)");
  command->callback([arguments, &app, &exit_code] {
    const OutputFormat format = output_format(arguments->format);
    exit_code = run_interruptibly("what was counted is kept", [&](const InterruptNote& interrupts) {
      print_table(count_table(*arguments, shows_progress(app), interrupts), format);
    });
  });
}

}  // namespace sftbench
