// The texts of a job, one set or several that are mixed: which of them are trained on and which are
// evaluated, encoded as far as this rank reads them.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "engine/evaluation.h"
#include "engine/step_batches.h"
#include "sftbench/base/work_count.h"
#include "sftbench/data/mixed_texts.h"
#include "sftbench/plan/data_sets.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/tokenizer/tokenizer.h"

namespace sftbench {

struct PreparedData {
  TrainingData training;
  std::optional<EvaluationData> evaluation;  // where the job evaluates
};

class TextPreparation {
 public:
  // All of it outlives the object. `work` counts entries.
  TextPreparation(const TrainingJob& job, const Tokenizer& tokenizer, int threads, int64_t rank,
                  WorkCount& work);

  // InputError: what is wrong with a file.
  PreparedData prepare();

 private:
  struct Set {
    DataSet from;
    std::shared_ptr<TextDataset> texts;
  };

  std::shared_ptr<TextDataset> open(const DataSource& source) const;
  void open_sets();
  // Whether the order is that of the one file.
  bool is_plain() const;
  void encode(const std::vector<int64_t>& entries);
  void require_responses(size_t entries) const;
  TrainingData training_data();
  EvaluationData evaluation_data();
  EvaluationData evaluation_of(std::shared_ptr<const EncodedEntries> dataset,
                               const std::vector<int64_t>& entries) const;

  const TrainingJob& job_;
  const Tokenizer& tokenizer_;
  int threads_;
  int64_t rank_;
  WorkCount& work_;
  std::vector<Set> sets_;
  DividedEntries entries_;  // of the mixture
  std::shared_ptr<MixedTexts> mixture_;
};

}  // namespace sftbench
