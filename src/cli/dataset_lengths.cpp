#include "cli/dataset_lengths.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include "cli/given_data.h"
#include "sftbench/base/data_files.h"
#include "sftbench/base/file.h"
#include "sftbench/data/entry_file.h"
#include "sftbench/data/parquet_library.h"
#include "sftbench/data/token_count.h"

namespace sftbench {

void add_dataset_length_options(CLI::App& command, DatasetLengths& options,
                                const DatasetOptionNames& names) {
  command
      .add_option(
          names.dataset, options.dataset,
          "JSON, JSON Lines, Parquet or Arrow, a folder of it, a dataset of the hub that is "
          "here, or name of a generated dataset: its lengths are counted")
      ->type_name("FILE");
  command.add_option(names.text_field, options.text_field, "its field with the text")
      ->type_name("NAME")
      ->capture_default_str();
  command
      .add_option(names.tokenizer, options.tokenizer,
                  "directory with tokenizer.json (default: the tokenizer that ships)")
      ->type_name("DIR");
}

std::vector<int64_t> lengths_of(const DatasetLengths& options) {
  const std::filesystem::path path = require_dataset("--dataset", options.dataset);
  const bool parquet = is_parquet(path);
  const std::unique_ptr<ParquetLibrary> library = parquet ? load_parquet_library() : nullptr;
  const std::unique_ptr<ParquetTexts> texts =
      parquet ? library->read_texts(path, options.text_field) : nullptr;
  const std::optional<Entries> entries =
      parquet ? std::nullopt : std::optional<Entries>(open_entries(path));
  Tokenizer tokenizer = options.tokenizer.empty() ? Tokenizer::builtin()
                                                  : Tokenizer::from_directory(options.tokenizer);
  complete_special_tokens(tokenizer);
  TokenCountCache cache(user_cache_directory() / "tokens",
                        {.tokenizer_digest = tokenizer_digest(options.tokenizer),
                         .dataset_digest = digest_data(path),
                         .text_field = options.text_field,
                         .entries = parquet ? texts->size() : entries->size()});
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  return parquet ? count_tokens(*texts, tokenizer, threads, cache)
                 : count_tokens(*entries, options.text_field, tokenizer, threads, cache);
}

}  // namespace sftbench
