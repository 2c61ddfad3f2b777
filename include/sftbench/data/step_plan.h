// Which entries stand in which micro-batch of which optimization step, and how many steps there
// are.
//
// As the current Hugging Face Trainer makes them (set_initial_training_values, _run_epoch) over
// accelerate's BatchSamplerShard with even_batches: the last batch of an epoch is kept though it is
// short; with several ranks it is filled from the start of the epoch so that all ranks have equally
// many full batches; the last accumulation group of an epoch may have fewer micro-batches; a new
// epoch starts a new group.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace sftbench {

struct StepPlanOptions {
  int64_t entries = 0;  // of the dataset
  int64_t per_device_batch_size = 1;
  int64_t gradient_accumulation_steps = 1;
  int64_t max_steps = -1;  // <= 0: num_train_epochs decides
  double num_train_epochs = 1.0;
  int64_t ranks = 1;
  uint64_t seed = 42;
};

// One rank's share of one optimization step.
struct StepEntries {
  int64_t epoch = 0;
  std::vector<std::vector<int64_t>> micro_batches;  // entry numbers
  double epoch_fraction = 0;  // epochs done after this step, as Trainer logs it
};

class StepPlan {
 public:
  // REQUIRES: counts > 0, max_steps > 0 or num_train_epochs > 0.
  explicit StepPlan(const StepPlanOptions& options);

  int64_t total_steps() const { return total_steps_; }  // what the learning-rate schedule spans
  int64_t epochs() const;                               // begun by the run

  // step is 0-based and < total_steps(). Steps asked for in order cost one shuffle per epoch.
  StepEntries step(int64_t step, int64_t rank);

  // The step that has the largest micro-batch of all ranks, the first of equal ones.
  int64_t step_of_largest(const std::function<int64_t(const std::vector<int64_t>&)>& size);

  // This step's entries come in the first step, and those of the first one in it.
  void bring_first(int64_t step);

  // Every entry that a rank reads in the first `steps` steps, each once, ascending.
  std::vector<int64_t> entries_used(int64_t rank, int64_t steps);

 private:
  const std::vector<int64_t>& order(int64_t epoch);

  StepPlanOptions options_;
  int64_t batches_per_epoch_ = 0;
  int64_t steps_per_epoch_ = 0;
  int64_t total_steps_ = 0;
  int64_t first_ = 0;  // the step whose entries come first
  int64_t cached_epoch_ = -1;
  std::vector<int64_t> cached_order_;
};

}  // namespace sftbench
