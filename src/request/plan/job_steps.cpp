#include "sftbench/plan/job_steps.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace sftbench {
namespace {

constexpr int64_t kUsualEntries = 4096, kUsualTokens = 1 << 14;
constexpr int64_t kCharactersPerToken = 5;

// The number behind `word` in an id; nothing there gives `otherwise`.
int64_t number_behind(const std::string& id, std::string_view word, int64_t otherwise) {
  const size_t found = id.find(word);
  if (found == std::string::npos) return otherwise;
  std::from_chars(id.data() + found + word.size(), id.data() + id.size(), otherwise);
  return otherwise;
}

}  // namespace

StepPlanOptions step_plan_options(const TrainingJob& job, int64_t rows) {
  return {.entries = rows,
          .per_device_batch_size = job.batches.per_device_batch_size,
          .gradient_accumulation_steps = job.batches.gradient_accumulation_steps,
          .max_steps = job.batches.max_steps,
          .num_train_epochs = job.batches.num_train_epochs,
          .ranks = data_ranks(job),
          .seed = job.seed};
}

int64_t entries_by_id(const std::string& dataset_id) {
  return std::max<int64_t>(1, number_behind(dataset_id, "entries-", kUsualEntries));
}

int64_t tokens_by_id(const std::string& dataset_id) {
  const int64_t characters = number_behind(dataset_id, "chars-", 0);
  if (characters > 0) return std::max<int64_t>(1, 2 * characters / kCharactersPerToken);
  if (dataset_id.find("tokens-128k") != std::string::npos) return 1 << 17;
  return number_behind(dataset_id, "tokens-", kUsualTokens);
}

int64_t kept_tokens_by_id(const TrainingJob& job) {
  return std::min(tokens_by_id(job.data.dataset_id), job.data.model_max_length);
}

int64_t entries_per_row_by_id(const TrainingJob& job) {
  if (job.data.padding != Padding::kPacked) return 1;
  return std::max<int64_t>(
      1, job.data.model_max_length / std::max<int64_t>(1, kept_tokens_by_id(job)));
}

int64_t steps_by_id(const TrainingJob& job) {
  const int64_t entries = entries_by_id(job.data.dataset_id);
  const int64_t per_row = entries_per_row_by_id(job);
  return StepPlan(step_plan_options(job, (entries + per_row - 1) / per_row)).total_steps();
}

}  // namespace sftbench
