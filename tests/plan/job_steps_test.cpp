#include "sftbench/plan/job_steps.h"

#include <gtest/gtest.h>

namespace sftbench {
namespace SFTBENCH_FILE {

TrainingJob job_on(const std::string& dataset_id) {
  TrainingJob job;
  job.data.dataset_id = dataset_id;
  job.data.model_max_length = 512;
  job.batches.per_device_batch_size = 4;
  job.batches.gradient_accumulation_steps = 2;
  return job;
}

TEST(ById, TellsEntriesAndTokensOfTheDocumentsDatasets) {
  EXPECT_EQ(entries_by_id("news-chars-1024-entries-256"), 256);
  EXPECT_EQ(entries_by_id("news-tokens-128kplus-entries-320"), 320);
  EXPECT_EQ(entries_by_id("complaints"), 4096);
  EXPECT_EQ(entries_by_id("mine-entries-0"), 1);
  EXPECT_EQ(entries_by_id("mine-entries-many"), 4096);
  EXPECT_EQ(tokens_by_id("news-chars-1024-entries-256"), 409);
  EXPECT_EQ(tokens_by_id("news-tokens-16384plus-entries-4096"), 16384);
  EXPECT_EQ(tokens_by_id("news-tokens-128kplus-entries-320"), 131072);
  EXPECT_EQ(tokens_by_id("complaints"), 16384);
}

// 256 entries, 8 in a step of one rank.
TEST(StepsById, FollowEpochsAndMaxSteps) {
  TrainingJob job = job_on("news-chars-1024-entries-256");
  EXPECT_EQ(steps_by_id(job), 32);
  job.batches.num_train_epochs = 2.5;
  EXPECT_EQ(steps_by_id(job), 80);
  job.batches.max_steps = 7;
  EXPECT_EQ(steps_by_id(job), 7);
}

TEST(StepsById, RanksOfAContextGroupReadTheSameEntries) {
  TrainingJob job = job_on("news-chars-1024-entries-256");
  job.device.ranks = 4;
  EXPECT_EQ(steps_by_id(job), 8);
  job.parallel.context_ranks = 2;
  EXPECT_EQ(steps_by_id(job), 16);
}

// Two entries of 204 tokens fill a row of 512.
TEST(StepsById, CountPacksAndNotEntries) {
  TrainingJob job = job_on("news-chars-512-entries-256");
  EXPECT_EQ(steps_by_id(job), 32);
  job.data.padding = Padding::kPacked;
  EXPECT_EQ(entries_per_row_by_id(job), 2);
  EXPECT_EQ(steps_by_id(job), 16);
  job.data.dataset_id = "news-tokens-16384plus-entries-256";
  EXPECT_EQ(kept_tokens_by_id(job), 512);
  EXPECT_EQ(steps_by_id(job), 32);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
