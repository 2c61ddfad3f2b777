#include "sftbench/data/step_plan.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "data/epoch_order.h"
#include "sftbench/base/error.h"

namespace sftbench {
namespace {

int64_t ceil_divide(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

// A rank's batch of this number in an epoch's order (accelerate's BatchSamplerShard, even_batches).
std::vector<int64_t> batch_of(const std::vector<int64_t>& order, const StepPlanOptions& options,
                              int64_t rank, int64_t number) {
  const auto entries = static_cast<int64_t>(order.size());
  const int64_t begin = (number * options.ranks + rank) * options.per_device_batch_size;
  // One rank keeps a short last batch. With several, the epoch's order starts over until the last
  // round is whole.
  int64_t end = begin + options.per_device_batch_size;
  if (options.ranks == 1) end = std::min(end, entries);
  std::vector<int64_t> batch;
  for (int64_t i = begin; i < end; ++i) batch.push_back(order[static_cast<size_t>(i % entries)]);
  return batch;
}

}  // namespace

StepPlan::StepPlan(const StepPlanOptions& options) : options_(options) {
  check(options.entries > 0 && options.per_device_batch_size > 0 && options.ranks > 0 &&
            options.gradient_accumulation_steps > 0,
        "counts of a step plan are positive");
  check(options.max_steps > 0 || options.num_train_epochs > 0, "a step plan has an end");
  const int64_t batches = ceil_divide(options.entries, options.per_device_batch_size);
  batches_per_epoch_ = ceil_divide(batches, options.ranks);
  steps_per_epoch_ = ceil_divide(batches_per_epoch_, options.gradient_accumulation_steps);
  total_steps_ = options.max_steps > 0
                     ? options.max_steps
                     : static_cast<int64_t>(std::ceil(options.num_train_epochs *
                                                      static_cast<double>(steps_per_epoch_)));
}

int64_t StepPlan::epochs() const {
  return ceil_divide(total_steps_, steps_per_epoch_);
}

const std::vector<int64_t>& StepPlan::order(int64_t epoch) {
  if (epoch != cached_epoch_) {
    cached_order_ = epoch_order(options_.entries, options_.seed, epoch);
    cached_epoch_ = epoch;
  }
  return cached_order_;
}

StepEntries StepPlan::step(int64_t step, int64_t rank) {
  check(step >= 0 && step < total_steps_ && rank >= 0 && rank < options_.ranks,
        "the step is planned");
  const auto first_batch = [this](int64_t of_step) {
    return of_step % steps_per_epoch_ * options_.gradient_accumulation_steps;
  };
  const auto end_batch = [this](int64_t first) {
    return std::min(first + options_.gradient_accumulation_steps, batches_per_epoch_);
  };
  StepEntries result;
  result.epoch = step / steps_per_epoch_;
  result.epoch_fraction =
      static_cast<double>(result.epoch) +
      static_cast<double>(end_batch(first_batch(step))) / static_cast<double>(batches_per_epoch_);
  const int64_t read = step == 0 ? first_ : step == first_ ? 0 : step;
  const std::vector<int64_t>& entries = order(read / steps_per_epoch_);
  const int64_t first = first_batch(read);
  for (int64_t i = first; i < end_batch(first); ++i) {
    result.micro_batches.push_back(batch_of(entries, options_, rank, i));
  }
  return result;
}

int64_t StepPlan::step_of_largest(const std::function<int64_t(const std::vector<int64_t>&)>& size) {
  int64_t found = 0, largest = -1;
  for (int64_t rank = 0; rank < options_.ranks; ++rank) {
    for (int64_t i = 0; i < total_steps_; ++i) {
      for (const std::vector<int64_t>& batch : step(i, rank).micro_batches) {
        const int64_t own = size(batch);
        if (own < largest || (own == largest && i >= found)) continue;
        largest = own;
        found = i;
      }
    }
  }
  return found;
}

void StepPlan::bring_first(int64_t step) {
  check(step >= 0 && step < total_steps_, "the step is planned");
  first_ = step;
}

std::vector<int64_t> StepPlan::entries_used(int64_t rank, int64_t steps) {
  std::vector<bool> used(static_cast<size_t>(options_.entries));
  for (int64_t i = 0; i < std::min(steps, total_steps_); ++i) {
    for (const auto& batch : step(i, rank).micro_batches) {
      for (const int64_t entry : batch) used[static_cast<size_t>(entry)] = true;
    }
  }
  std::vector<int64_t> entries;
  for (int64_t i = 0; i < options_.entries; ++i) {
    if (used[static_cast<size_t>(i)]) entries.push_back(i);
  }
  return entries;
}

}  // namespace sftbench
