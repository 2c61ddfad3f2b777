#include "sftbench/cli/dataset.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sftbench/base/clock.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/data/dataset_catalog.h"
#include "sftbench/data/text_generator.h"
#include "sftbench/data/token_count.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// Common options of the program, wherever this command hangs in it.
bool shows_progress(const CLI::App& app) {
  const CLI::Option* off = app.get_option_no_throw("--no-progress");
  return (off == nullptr || off->count() == 0) && spdlog::should_log(spdlog::level::info);
}

// "<what>: <done> of <total>" on stderr: one line that renews itself on a terminal, else one every
// few seconds.
class ProgressLine {
 public:
  ProgressLine(std::string what, int64_t total, bool shown)
      : what_(std::move(what)),
        total_(total),
        shown_(shown),
        terminal_(::isatty(STDERR_FILENO) != 0),
        period_s_(terminal_ ? 0.1 : 3.0),
        last_s_(steady_seconds()) {}

  void update(int64_t done) {
    const double now_s = steady_seconds();
    const bool last = done == total_ && terminal_;
    if (!shown_ || (now_s - last_s_ < period_s_ && !last)) return;
    last_s_ = now_s;
    std::cerr << (terminal_ ? "\r" : "") << what_ << ": " << done << " of " << total_
              << (terminal_ && !last ? "" : "\n") << std::flush;
  }

 private:
  std::string what_;
  int64_t total_;
  bool shown_;
  bool terminal_;
  double period_s_;
  double last_s_;
};

// --- dataset text ----------------------------------------------------------------------------

struct TextArguments {
  std::string id, output, seed_path;
  TextGeneratorOptions generator;
  int64_t gpus = 8, batch_size = 128, accumulation = 4;
  std::vector<const CLI::Option*> own;  // describe a dataset that has no name
};

TextGenerator generator_of(const TextArguments& arguments) {
  if (arguments.id.empty()) {
    TextGeneratorOptions options = arguments.generator;
    options.entries = arguments.gpus * arguments.batch_size * arguments.accumulation;
    const fs::path seed =
        arguments.seed_path.empty() ? default_seed_path() : fs::path(arguments.seed_path);
    return TextGenerator(read_file(seed), seed.string(), options);
  }
  const NamedDataset& dataset = named_dataset(arguments.id);
  for (const CLI::Option* option : arguments.own) {
    if (option->count() == 0) continue;
    throw InputError(
        {{.file = {},
          .line = 0,
          .key = option->get_name(),
          .message = "the named dataset '" + arguments.id + "' is always made the same way",
          .expected = "either a dataset's name or options of your own",
          .nearest = {}}});
  }
  return named_text_generator(dataset);
}

fs::path output_of(const TextArguments& arguments) {
  if (!arguments.output.empty()) return arguments.output;
  if (!arguments.id.empty()) return default_dataset_path(named_dataset(arguments.id));
  throw InputError(
      {{.file = {},
        .line = 0,
        .key = "--output",
        .message = "nothing says where the dataset goes",
        .expected = "a file to write, or the name of a dataset ('sftbench dataset list')",
        .nearest = {}}});
}

void run_text(const TextArguments& arguments, bool progress_shown) {
  const fs::path output = output_of(arguments);
  TextGenerator generator = generator_of(arguments);
  const int64_t entries = generator.options().entries;
  const int64_t bytes = generator.total_bytes();
  const double begin_s = steady_seconds();
  ProgressLine progress("entries written", entries, progress_shown);
  write_text_dataset(std::move(generator), output,
                     [&](int64_t done, int64_t) { progress.update(done); });
  spdlog::info("{} entries, {:.1f} MB, {:.2f} s", entries, static_cast<double>(bytes) / 1e6,
               steady_seconds() - begin_s);
  std::cout << output.string() << "\n";
}

void add_text(CLI::App& parent, const CLI::App& app, int& exit_code) {
  CLI::App* command = parent.add_subcommand("text", "generate a synthetic text dataset");
  const auto arguments = std::make_shared<TextArguments>();
  TextGeneratorOptions& generator = arguments->generator;
  command->add_option("ID", arguments->id, "a named dataset, byte for byte the same each time");
  command->add_option(
      "-o,--output", arguments->output,
      "JSONL file to write (default for a named dataset: in the user's data directory)");
  const auto own = [&](const char* names, auto& value, const char* help) {
    CLI::Option* option = command->add_option(names, value, help)->capture_default_str();
    arguments->own.push_back(option);
    return option;
  };
  own("-i,--input", arguments->seed_path, "seed text (default: the one that ships)");
  own("--tokens-input", generator.input_tokens, "tokens of each entry's input, about");
  own("--tokens-output", generator.output_tokens, "tokens of each entry's output, about");
  own("--response-delimiter", generator.response_delimiter, "text between input and output")
      ->default_str(R"("\n\n### Response:")");
  own("--prompt", generator.prompt, "text before the input")->default_str(R"("### Input:\n")");
  own("--words-per-token", generator.words_per_token, "words that stand for one token");
  const CLI::Range counts(1, 100'000);
  own("--num-max-gpus", arguments->gpus, "entries = GPUs x batch size x accumulation steps")
      ->check(counts);
  own("--num-max-batch-size", arguments->batch_size, "per GPU")->check(counts);
  own("--num-gradient-accumulation-steps", arguments->accumulation, "micro-batches per step")
      ->check(counts);
  command->callback([arguments, &app, &exit_code] {
    run_text(*arguments, shows_progress(app));
    exit_code = 0;
  });
}

// --- dataset list ----------------------------------------------------------------------------

Table named_dataset_table() {
  Table table{{"dataset", "entries", "bytes", "path", "present"}, {}};
  for (const NamedDataset& dataset : named_datasets()) {
    const fs::path path = default_dataset_path(dataset);
    const Json entries = dataset.text ? Json(dataset.text->entries) : Json();
    const Json bytes = dataset.text ? Json(named_text_generator(dataset).total_bytes()) : Json();
    table.rows.push_back({dataset.id, entries, bytes, path.string(), fs::exists(path)});
  }
  return table;
}

void add_list(CLI::App& parent, int& exit_code) {
  CLI::App* command = parent.add_subcommand("list", "the datasets that have a name");
  const auto format = std::make_shared<std::string>("table");
  command->add_option("--format", *format, "table, json, jsonl, csv or md")->capture_default_str();
  command->callback([format, &exit_code] {
    std::cout << render(named_dataset_table(), output_format(*format));
    exit_code = 0;
  });
}

// --- dataset count ---------------------------------------------------------------------------

struct CountArguments {
  std::string dataset, tokenizer, text_field = "output", cache, format = "table";
  int64_t model_max_length = 0;  // 0: not truncated
  int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
};

// A file, or the name of a dataset that has been made.
fs::path dataset_file(const std::string& dataset) {
  if (fs::exists(dataset) || dataset.find_first_of("/.") != std::string::npos) return dataset;
  const fs::path path = default_dataset_path(named_dataset(dataset));
  if (!fs::exists(path)) {
    throw InputError("dataset '" + dataset + "' is not at " + path.string() +
                     "; make it with: sftbench dataset text " + dataset);
  }
  return path;
}

Table count_table(const CountArguments& arguments, bool progress_shown) {
  const fs::path path = dataset_file(arguments.dataset);
  const JsonlFile file(path);
  Tokenizer tokenizer = arguments.tokenizer.empty()
                            ? Tokenizer::builtin()
                            : Tokenizer::from_directory(arguments.tokenizer);
  complete_special_tokens(tokenizer);
  const fs::path cache_directory =
      arguments.cache.empty() ? user_cache_directory() / "tokens" : fs::path(arguments.cache);
  TokenCountCache cache(cache_directory, {.tokenizer_digest = tokenizer_digest(arguments.tokenizer),
                                          .dataset_digest = digest_file(path),
                                          .text_field = arguments.text_field,
                                          .entries = file.size()});
  ProgressLine progress("entries counted", file.size(), progress_shown);
  std::vector<int64_t> counts =
      count_tokens(file, arguments.text_field, tokenizer, arguments.threads, cache,
                   [&](int64_t done) { progress.update(done); });
  cache.save();

  if (arguments.model_max_length > 0) {
    for (int64_t& count : counts) count = std::min(count, arguments.model_max_length);
  }
  const int64_t tokens = std::accumulate(counts.begin(), counts.end(), int64_t{0});
  const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
  return {{"dataset", "entries", "tokens", "min", "mean", "max", "cache"},
          {{path.string(), file.size(), tokens, *least,
            static_cast<double>(tokens) / static_cast<double>(file.size()), *most,
            cache.path().string()}}};
}

void add_count(CLI::App& parent, const CLI::App& app, int& exit_code) {
  CLI::App* command =
      parent.add_subcommand("count", "count the tokens of a JSONL dataset and cache the counts");
  const auto arguments = std::make_shared<CountArguments>();
  command
      ->add_option("dataset", arguments->dataset,
                   "a JSONL file, or the name of a generated dataset")
      ->required();
  command->add_option("--tokenizer", arguments->tokenizer,
                      "directory with tokenizer.json (default: the tokenizer that ships)");
  command->add_option("--text-field", arguments->text_field, "field with the text")
      ->capture_default_str();
  command
      ->add_option("--model-max-length", arguments->model_max_length,
                   "count each entry up to this many tokens")
      ->check(CLI::PositiveNumber);
  command->add_option("--cache", arguments->cache,
                      "directory of the counts (default: in the user's cache directory)");
  command->add_option("--threads", arguments->threads, "threads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  command->callback([arguments, &app, &exit_code] {
    const OutputFormat format = output_format(arguments->format);
    std::cout << render(count_table(*arguments, shows_progress(app)), format);
    exit_code = 0;
  });
}

}  // namespace

void add_dataset_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("dataset", "make and count datasets");
  command->require_subcommand(1);
  add_text(*command, app, exit_code);
  add_list(*command, exit_code);
  add_count(*command, app, exit_code);
}

}  // namespace sftbench
