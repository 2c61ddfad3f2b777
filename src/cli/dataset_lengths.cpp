#include "cli/dataset_lengths.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <thread>

#include "cli/given_data.h"
#include "sftbench/base/data_files.h"
#include "sftbench/base/file.h"
#include "sftbench/data/entry_file.h"
#include "sftbench/plan/data_sets.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kUncut = int64_t{1} << 30;

std::vector<int64_t> lengths_of(CountedFile& file, const fs::path& path,
                                const std::string& tokenizer_directory,
                                const Tokenizer& tokenizer) {
  TokenCountCache cache(user_cache_directory() / "tokens",
                        {.tokenizer_digest = tokenizer_digest(tokenizer_directory),
                         .dataset_digest = digest_data(path),
                         .text_field = file.counted(),
                         .entries = file.size()});
  const int threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::vector<int64_t> lengths = file.count(tokenizer, threads, cache);
  file.tell_account();
  return lengths;
}

// Those of vision datasets, whose texts stand without a chat template.
bool has_chats(const fs::path& path, const DatasetForms& forms) {
  const Entries first = open_entries(path, 1);
  Json entry;
  Diagnostic problem;
  if (!first.read_object(0, entry, problem)) return false;
  const auto text = entry.find(forms.options.text_field);
  return text != entry.end() && text->is_array() && forms.options.conversation_field.empty();
}

}  // namespace

CountedFile::CountedFile(const fs::path& path, const DatasetForms& forms,
                         int64_t model_max_length) {
  if (is_parquet(path) && has_chats(path, forms)) {
    library_ = load_parquet_library();
    parquet_ = library_->read_texts(path, forms.options.text_field);
    size_ = parquet_->size();
    text_field_ = forms.options.text_field;
    return;
  }
  Entries entries = open_entries(path);
  TextDatasetOptions options = options_of(forms, entries);
  options.model_max_length = model_max_length > 0 ? model_max_length : kUncut;
  dataset_.emplace(std::move(entries), tokenizer_of(forms), options);
  size_ = dataset_->size();
}

CountedFile::CountedFile(const fs::path& path, const Tokenizer& tokenizer,
                         const TextDatasetOptions& options) {
  dataset_.emplace(open_entries(path), tokenizer, options);
  size_ = dataset_->size();
}

std::vector<int64_t> CountedFile::count(const Tokenizer& tokenizer, int threads,
                                        TokenCountCache& cache,
                                        const std::function<void(int64_t)>& progress) {
  if (parquet_) return count_tokens(*parquet_, tokenizer, threads, cache, progress);
  constexpr int64_t kAtATime = 1024;
  std::vector<int64_t> counts;
  for (int64_t begin = 0; begin < size_; begin += kAtATime) {
    std::vector<int64_t> entries(static_cast<size_t>(std::min(kAtATime, size_ - begin)));
    std::iota(entries.begin(), entries.end(), begin);
    dataset_->encode(entries, threads, &cache);
    if (progress) progress(begin + static_cast<int64_t>(entries.size()));
  }
  for (int64_t i = 0; i < size_; ++i) counts.push_back(cache.tokens(i).value());
  return counts;
}

void CountedFile::tell_account() const {
  if (dataset_) return sftbench::tell_account(*dataset_);
  spdlog::warn("texts alone are counted: a run adds the chat template, and positions of pictures");
}

CountedData count_data(const std::string& option, const DatasetForms& forms) {
  const fs::path path = require_dataset(option, forms.dataset);
  CountedFile file(path, forms);
  CountedData counted{fs::absolute(path).string(), {}, {}};
  if (file.options() != nullptr) counted.options = *file.options();
  counted.lengths = lengths_of(file, path, forms.tokenizer, tokenizer_of(forms));
  return counted;
}

TrainedLengths count_lengths(const TrainingJob& job) {
  const std::string& directory = job.model.tokenizer_directory;
  Tokenizer tokenizer =
      directory.empty() ? Tokenizer::builtin() : Tokenizer::from_directory(directory);
  complete_special_tokens(tokenizer);
  const std::vector<DataSet> sets = data_sets(job);
  std::vector<int64_t> all, sizes;
  for (const DataSet& set : sets) {
    TextDatasetOptions options = text_options(set.source, 0);
    options.model_max_length = kUncut;
    if (!job.data.chat_template.empty()) {
      options.chat_template = {job.data.chat_template, "chat_template"};
      options.now = std::time(nullptr);
    }
    CountedFile file(set.source.path, tokenizer, options);
    const std::vector<int64_t> own = lengths_of(file, set.source.path, directory, tokenizer);
    all.insert(all.end(), own.begin(), own.end());
    sizes.push_back(file.size());
  }
  TrainedLengths trained = {{}, divide_entries(job, sets, sizes).training};
  for (const int64_t entry : trained.entries)
    trained.lengths.push_back(all[static_cast<size_t>(entry)]);
  return trained;
}

}  // namespace sftbench
