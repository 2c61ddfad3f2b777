// sftbench dataset count DATASET: the tokens of its entries, and the cache of them.
#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "cli/dataset_commands.h"
#include "cli/dataset_forms.h"
#include "cli/given_data.h"
#include "cli/number_checks.h"
#include "cli/record.h"
#include "sftbench/base/data_files.h"
#include "sftbench/base/error.h"
#include "sftbench/data/entry_file.h"
#include "sftbench/data/parquet_library.h"
#include "sftbench/data/token_count.h"
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

// A dataset's file or folder, opened as what it holds.
class CountedFile {
 public:
  CountedFile(const fs::path& path, const CountArguments& arguments) {
    if (is_parquet(path) && has_chats(path, arguments.forms)) {
      library_ = load_parquet_library();
      parquet_ = library_->read_texts(path, arguments.forms.options.text_field);
      size_ = parquet_->size();
      text_field_ = arguments.forms.options.text_field;
      return;
    }
    Entries entries = open_entries(path);
    TextDatasetOptions options = options_of(arguments.forms, entries);
    options.model_max_length =
        arguments.model_max_length > 0 ? arguments.model_max_length : kMostTokens;
    dataset_.emplace(std::move(entries), tokenizer_of(arguments.forms), options);
    size_ = dataset_->size();
  }

  int64_t size() const { return size_; }

  // What the counts are counts of.
  std::string counted() const { return dataset_ ? counted_text(dataset_->options()) : text_field_; }

  std::vector<int64_t> count(const Tokenizer& tokenizer, int threads, TokenCountCache& cache,
                             const std::function<void(int64_t)>& progress) {
    if (parquet_) return count_tokens(*parquet_, tokenizer, threads, cache, progress);
    constexpr int64_t kAtATime = 1024;
    std::vector<int64_t> counts;
    for (int64_t begin = 0; begin < size_; begin += kAtATime) {
      std::vector<int64_t> entries;
      for (int64_t i = begin; i < std::min(begin + kAtATime, size_); ++i) entries.push_back(i);
      dataset_->encode(entries, threads, &cache);
      progress(begin + static_cast<int64_t>(entries.size()));
    }
    for (int64_t i = 0; i < size_; ++i) counts.push_back(cache.tokens(i).value());
    return counts;
  }

  void tell_account() const {
    if (dataset_) sftbench::tell_account(*dataset_);
  }

 private:
  static constexpr int64_t kMostTokens = int64_t{1} << 30;

  // Those of vision datasets, whose texts stand without a chat template.
  static bool has_chats(const fs::path& path, const DatasetForms& forms) {
    const Entries first = open_entries(path, 1);
    Json entry;
    Diagnostic problem;
    if (!first.read_object(0, entry, problem)) return false;
    const auto text = entry.find(forms.options.text_field);
    return text != entry.end() && text->is_array() && forms.options.conversation_field.empty();
  }

  int64_t size_ = 0;
  std::string text_field_;
  std::optional<TextDataset> dataset_;  // one of the two is there
  std::unique_ptr<ParquetLibrary> library_;
  std::unique_ptr<ParquetTexts> parquet_;
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
  CountedFile file(path, arguments);
  const Tokenizer tokenizer = tokenizer_of(arguments.forms);
  const fs::path cache_directory =
      arguments.cache.empty() ? user_cache_directory() / "tokens" : fs::path(arguments.cache);
  TokenCountCache cache(cache_directory,
                        {.tokenizer_digest = tokenizer_digest(arguments.forms.tokenizer),
                         .dataset_digest = digest_data(path),
                         .text_field = file.counted(),
                         .entries = file.size()});
  spdlog::info("counting {} entries of {}, {} of them counted before", file.size(), path.string(),
               cache.known());
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
  add_dataset_form_options(*command, arguments->forms);
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
