#include "sftbench/data/step_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "data/golden.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using Batches = std::vector<std::vector<int64_t>>;

StepPlanOptions options_of(const Json& one) {
  return {.entries = one["entries"],
          .per_device_batch_size = one["batch"],
          .gradient_accumulation_steps = one["accumulation"],
          .max_steps = one["max_steps"],
          .num_train_epochs = one["num_train_epochs"],
          .ranks = one["ranks"],
          .seed = 42};
}

TEST(StepPlan, ReadsWhatTrainerReadsStepByStepOnOneRankAndOnSeveral) {
  const Json cases = golden("step_plan.json");
  ASSERT_GE(cases.size(), 80u);
  for (const Json& one : cases) {
    SCOPED_TRACE(one.dump().substr(0, 120));
    StepPlan plan(options_of(one));
    EXPECT_EQ(plan.total_steps(), one["total_steps"].get<int64_t>());
    EXPECT_EQ(plan.epochs(), one["epochs"].get<int64_t>());
    ASSERT_EQ(plan.total_steps(), static_cast<int64_t>(one["steps"].size()));
    for (int64_t i = 0; i < plan.total_steps(); ++i) {
      const StepEntries step = plan.step(i, one["rank"]);
      EXPECT_EQ(step.micro_batches, one["steps"][static_cast<size_t>(i)].get<Batches>())
          << "step " << i;
      EXPECT_DOUBLE_EQ(step.epoch_fraction,
                       one["epoch_fractions"][static_cast<size_t>(i)].get<double>());
    }
  }
}

TEST(StepPlan, StepsMayBeAskedForInAnyOrderAndByAnyRank) {
  const StepPlanOptions options{.entries = 23,
                                .per_device_batch_size = 2,
                                .gradient_accumulation_steps = 2,
                                .max_steps = 9,
                                .num_train_epochs = 1,
                                .ranks = 2,
                                .seed = 42};
  StepPlan forward(options), backward(options);
  std::vector<Batches> steps;
  for (int64_t i = 0; i < 9; ++i) steps.push_back(forward.step(i, 1).micro_batches);
  for (int64_t i = 8; i >= 0; --i) {
    backward.step(i, 0);
    EXPECT_EQ(backward.step(i, 1).micro_batches, steps[static_cast<size_t>(i)]);
  }
}

TEST(StepPlan, UsedEntriesAreThoseOfTheFirstStepsOnly) {
  StepPlan plan({.entries = 4096,
                 .per_device_batch_size = 4,
                 .gradient_accumulation_steps = 2,
                 .max_steps = 8,
                 .num_train_epochs = 1,
                 .ranks = 1,
                 .seed = 42});
  std::set<int64_t> expected;
  for (int64_t i = 0; i < 3; ++i) {
    for (const auto& batch : plan.step(i, 0).micro_batches)
      expected.insert(batch.begin(), batch.end());
  }
  const std::vector<int64_t> used = plan.entries_used(0, 3);
  EXPECT_EQ(used.size(), 24u);
  EXPECT_EQ(std::set<int64_t>(used.begin(), used.end()), expected);
  EXPECT_EQ(plan.entries_used(0, 1000).size(), 64u);
}

TEST(StepPlan, TheStepWithTheLargestBatchChangesPlacesWithTheFirst) {
  const StepPlanOptions options{.entries = 23,
                                .per_device_batch_size = 2,
                                .gradient_accumulation_steps = 2,
                                .max_steps = 9,
                                .num_train_epochs = 1,
                                .ranks = 2,
                                .seed = 42};
  StepPlan usual(options), plan(options);
  // Entry 7 is large, and rank 1 or 0 meets it first in some step of the first epoch, and again
  // later.
  const auto has_7 = [](const std::vector<int64_t>& batch) {
    return static_cast<int64_t>(std::count(batch.begin(), batch.end(), 7));
  };
  int64_t expected = -1;
  for (int64_t step = 8; step >= 0; --step) {
    for (int64_t rank = 0; rank < 2; ++rank) {
      for (const auto& batch : usual.step(step, rank).micro_batches)
        if (has_7(batch) > 0) expected = step;
    }
  }
  EXPECT_EQ(plan.step_of_largest(has_7), expected);
  plan.bring_first(7);  // in the second epoch, after a short last step of the first
  for (int64_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(plan.step(0, rank).micro_batches, usual.step(7, rank).micro_batches);
    EXPECT_EQ(plan.step(7, rank).micro_batches, usual.step(0, rank).micro_batches);
    EXPECT_EQ(plan.step(3, rank).micro_batches, usual.step(3, rank).micro_batches);
    EXPECT_EQ(plan.step(7, rank).epoch, usual.step(7, rank).epoch);
    EXPECT_EQ(plan.step(0, rank).epoch_fraction, usual.step(0, rank).epoch_fraction);
    EXPECT_EQ(plan.entries_used(rank, 9), usual.entries_used(rank, 9));
  }
}

TEST(StepPlan, NonsenseIsABrokenPromise) {
  StepPlanOptions options;
  EXPECT_THROW(StepPlan{options}, std::logic_error);
  options.entries = 3;
  options.num_train_epochs = 0;
  EXPECT_THROW(StepPlan{options}, std::logic_error);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
