#include "cli/worst_batch.h"

#include <algorithm>

#include "sftbench/base/error.h"
#include "sftbench/plan/job_steps.h"

namespace sftbench {
namespace {

// Takes note of micro-batches as training meets them.
class Search {
 public:
  Search(const TrainingJob& job, const std::vector<int64_t>& lengths)
      : job_(job), lengths_(lengths) {}

  void look_at(int64_t step, int64_t micro_batch, int64_t rank,
               const std::vector<int64_t>& entries) {
    if (entries.empty()) return;
    const auto longer = [this](int64_t a, int64_t b) { return kept(a) < kept(b); };
    const int64_t longest = *std::max_element(entries.begin(), entries.end(), longer);
    const int64_t length =
        job_.data.padding == Padding::kLongest ? kept(longest) : job_.data.model_max_length;
    const auto rows = static_cast<int64_t>(entries.size());
    rows_ += rows;
    positions_ += rows * length;
    if (rows * length <= worst_.rows * worst_.length) return;
    worst_.step = step + 1;
    worst_.micro_batch = micro_batch;
    worst_.rank = rank;
    worst_.rows = rows;
    worst_.length = length;
    worst_.entry = longest;
  }

  WorstBatch found() const {
    WorstBatch found = worst_;
    found.mean_length = static_cast<double>(positions_) / static_cast<double>(rows_);
    return found;
  }

 private:
  int64_t kept(int64_t entry) const {
    const int64_t length = lengths_[static_cast<size_t>(entry)];
    return std::clamp<int64_t>(length, 1, job_.data.model_max_length);
  }

  const TrainingJob& job_;
  const std::vector<int64_t>& lengths_;
  WorstBatch worst_;
  int64_t rows_ = 0, positions_ = 0;
};

// Entries that share a row have one number; which entries share one does not matter here.
int64_t rows_of_epoch(const TrainingJob& job, const std::vector<int64_t>& lengths) {
  if (job.data.padding != Padding::kPacked) return static_cast<int64_t>(lengths.size());
  int64_t tokens = 0;
  for (const int64_t length : lengths) tokens += std::min(length, job.data.model_max_length);
  return std::max<int64_t>(1, (tokens + job.data.model_max_length - 1) / job.data.model_max_length);
}

}  // namespace

WorstBatch worst_batch(const TrainingJob& job, const std::vector<int64_t>& lengths) {
  check(!lengths.empty(), "the dataset has entries");
  StepPlan plan(step_plan_options(job, rows_of_epoch(job, lengths)));
  Search search(job, lengths);
  for (int64_t rank = 0; rank < data_ranks(job); ++rank) {
    for (int64_t step = 0; step < plan.total_steps(); ++step) {
      const StepEntries entries = plan.step(step, rank);
      for (size_t i = 0; i < entries.micro_batches.size(); ++i)
        search.look_at(step, static_cast<int64_t>(i), rank, entries.micro_batches[i]);
    }
  }
  WorstBatch worst = search.found();
  worst.steps = plan.total_steps();
  return worst;
}

TrainingJob job_of(const WorstBatch& worst, TrainingJob job) {
  job.batches.per_device_batch_size = worst.rows;
  job.data.model_max_length = worst.length;
  return job;
}

}  // namespace sftbench
