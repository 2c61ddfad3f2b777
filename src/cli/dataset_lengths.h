// The lengths of a dataset's entries, in each form that a run takes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/dataset_forms.h"
#include "sftbench/data/parquet_library.h"
#include "sftbench/data/token_count.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// A dataset's file or folder, opened as what it holds.
class CountedFile {
 public:
  // `model_max_length`: tokens that an entry is cut to; 0: none is cut. InputError.
  CountedFile(const std::filesystem::path& path, const DatasetForms& forms,
              int64_t model_max_length = 0);
  CountedFile(const std::filesystem::path& path, const Tokenizer& tokenizer,
              const TextDatasetOptions& options);

  int64_t size() const { return size_; }
  // What the counts are counts of.
  std::string counted() const { return dataset_ ? counted_text(dataset_->options()) : text_field_; }
  std::vector<int64_t> count(const Tokenizer& tokenizer, int threads, TokenCountCache& cache,
                             const std::function<void(int64_t)>& progress = {});
  void tell_account() const;
  // Nothing of chats with pictures.
  const TextDatasetOptions* options() const { return dataset_ ? &dataset_->options() : nullptr; }

 private:
  int64_t size_ = 0;
  std::string text_field_;
  std::optional<TextDataset> dataset_;  // one of the two is there
  std::unique_ptr<ParquetLibrary> library_;
  std::unique_ptr<ParquetTexts> parquet_;
};

struct CountedData {
  std::string path;
  std::vector<int64_t> lengths;  // of the entries in their order
  TextDatasetOptions options;
};

// Counted once and then cached. InputError, which names the option that gives `forms.dataset`.
CountedData count_data(const std::string& option, const DatasetForms& forms);

// Of the entries that a run trains on, in the order in which an epoch finds them before it
// shuffles.
struct TrainedLengths {
  std::vector<int64_t> lengths;
  std::vector<int64_t> entries;  // their numbers, several sets one behind the other
};

// As `job` mixes its sets of texts and holds entries out, and as its tokenizer has them.
// InputError, RunError.
TrainedLengths count_lengths(const TrainingJob& job);

}  // namespace sftbench
