// sftbench dataset count DATASET: the tokens of its entries, and the cache of them.
#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "cli/dataset_commands.h"
#include "cli/given_data.h"
#include "cli/number_checks.h"
#include "cli/record.h"
#include "sftbench/base/data_files.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/data/entry_file.h"
#include "sftbench/data/token_count.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

struct CountArguments {
  std::string dataset, tokenizer, text_field = "output", cache, format = "table";
  int64_t model_max_length = 0;  // 0: not truncated
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
};

// By name or by its first bytes.
bool is_parquet(const fs::path& path) {
  if (!fs::is_regular_file(path)) return false;  // a folder, whose files are entries
  constexpr std::string_view kMagic = "PAR1";
  std::array<char, kMagic.size()> begin{};
  const size_t got = RandomAccessFile(path).read_at(0, begin.data(), begin.size());
  return path.extension() == ".parquet" || std::string_view(begin.data(), got) == kMagic;
}

// A dataset file of either kind, opened.
class CountedFile {
 public:
  CountedFile(const fs::path& path, std::string text_field) : text_field_(std::move(text_field)) {
    if (!is_parquet(path)) {
      entries_.emplace(open_entries(path));
    } else {
      library_ = load_parquet_library();
      parquet_ = library_->read_texts(path, text_field_);
    }
  }

  int64_t size() const { return entries_ ? entries_->size() : parquet_->size(); }

  std::vector<int64_t> count(const Tokenizer& tokenizer, int threads, TokenCountCache& cache,
                             const std::function<void(int64_t)>& progress) {
    return entries_ ? count_tokens(*entries_, text_field_, tokenizer, threads, cache, progress)
                    : count_tokens(*parquet_, tokenizer, threads, cache, progress);
  }

 private:
  std::string text_field_;
  std::optional<Entries> entries_;  // one of the two is there
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
  const fs::path path = require_dataset("dataset", arguments.dataset);
  CountedFile file(path, arguments.text_field);
  Tokenizer tokenizer = arguments.tokenizer.empty()
                            ? Tokenizer::builtin()
                            : Tokenizer::from_directory(arguments.tokenizer);
  complete_special_tokens(tokenizer);
  const fs::path cache_directory =
      arguments.cache.empty() ? user_cache_directory() / "tokens" : fs::path(arguments.cache);
  TokenCountCache cache(cache_directory, {.tokenizer_digest = tokenizer_digest(arguments.tokenizer),
                                          .dataset_digest = digest_data(path),
                                          .text_field = arguments.text_field,
                                          .entries = file.size()});
  spdlog::info("counting {} entries of {}, {} of them counted before", file.size(), path.string(),
               cache.known());
  std::vector<int64_t> counts;
  try {
    counts = file.count(
        tokenizer, arguments.threads, cache,
        watched(interrupts, progress_shown, "entries counted", file.size(), cache.known()));
  } catch (const DatasetInterrupted&) {
    save(cache);
    throw;
  }
  const bool kept = save(cache);

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
  command
      ->add_option(
          "dataset", arguments->dataset,
          "a JSON, JSON Lines, Parquet or Arrow file, a folder of them, a dataset of the hub "
          "that is here, or the name of a generated dataset")
      ->required();
  command->add_option("--tokenizer", arguments->tokenizer,
                      "directory with tokenizer.json (default: the tokenizer that ships)");
  command
      ->add_option("--text-field", arguments->text_field,
                   "field with the text; of a chat, the text of its messages is counted")
      ->capture_default_str();
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
  sftbench dataset count chats.jsonl --text-field messages --tokenizer DIR)");
  command->callback([arguments, &app, &exit_code] {
    const OutputFormat format = output_format(arguments->format);
    exit_code = run_interruptibly("what was counted is kept", [&](const InterruptNote& interrupts) {
      print_table(count_table(*arguments, shows_progress(app), interrupts), format);
    });
  });
}

}  // namespace sftbench
