// Tokens of experts that a run counts, where it is known which experts its positions choose.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/train_steps.h"
#include "engine/training_fixture.h"
#include "engine/training_run.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

constexpr int64_t kSteps = 2;

TrainingJob job_of_model(const std::string& model) {
  TrainingJob job = job_of(golden_run(model + "-float32"));
  job.batches.max_steps = kSteps;
  job.batches.gradient_accumulation_steps = 2;
  job.optimizer.learning_rate = 0;
  job.device.threads = 1;
  return job;
}

// The routers' biases leave no doubt: every position chooses experts 2 and 0.
Recorder train_on_two_experts(const TrainingJob& job) {
  TrainingRun run = prepare_run(job, alone());
  const torch::NoGradGuard no_grad;
  for (const NamedParameter& parameter : run.model->parameters()) {
    if (!parameter.name.ends_with("router.bias")) continue;
    parameter.tensor->copy_(torch::tensor({500.0, -500.0, 1000.0, -1000.0}));
  }
  Recorder recorder;
  const torch::AutoGradMode recording(true);
  train_steps(run, alone(), {&recorder}, [] { return false; });
  return recorder;
}

// A layer that is recomputed has not routed more tokens.
TEST(ExpertChoicesTest, EachPositionCountsOnceForEachExpertThatItChose) {
  TrainingJob job = job_of_model("gpt_oss");
  for (const bool checkpointing : {false, true}) {
    for (const bool reentrant : {false, true}) {
      job.activations = {.gradient_checkpointing = checkpointing, .use_reentrant = reentrant};
      const Recorder recorder = train_on_two_experts(job);
      const ExpertLoad& load = recorder.ends.at(0).experts;
      EXPECT_EQ(load.count, 4);
      EXPECT_EQ(load.per_token, 2);
      int64_t positions = 0;
      ASSERT_EQ(recorder.steps.size(), static_cast<size_t>(kSteps));
      for (size_t i = 0; i < recorder.steps.size(); ++i) {
        const int64_t of_step = recorder.steps[i].tokens.padded;
        EXPECT_EQ(load.tokens_per_expert.at(i), static_cast<double>(of_step) * 2 / 4);
        positions += of_step;
      }
      const std::vector<int64_t> of_layer = {positions, 0, positions, 0};
      EXPECT_EQ(load.tokens_by_layer, std::vector<std::vector<int64_t>>(2, of_layer));
      EXPECT_EQ(load.imbalance, std::vector<double>(kSteps, 2));
      EXPECT_EQ(load.worst_imbalance, std::vector<double>(kSteps, 2));
      EXPECT_EQ(load.busiest_share, std::vector<double>(kSteps, 0.5));
    }
  }
}

TEST(ExpertChoicesTest, EveryMixtureCountsAllItsTokens) {
  for (const char* model : {"mixtral", "granitemoe", "granitemoeshared", "granitemoehybrid"}) {
    SCOPED_TRACE(model);
    const Recorder recorder = train(job_of_model(model));
    const ExpertLoad& load = recorder.ends.at(0).experts;
    ASSERT_EQ(load.tokens_per_expert.size(), recorder.steps.size());
    for (size_t i = 0; i < recorder.steps.size(); ++i) {
      EXPECT_EQ(load.tokens_per_expert[i] * static_cast<double>(load.count),
                static_cast<double>(recorder.steps[i].tokens.padded * load.per_token));
    }
  }
}

TEST(ExpertChoicesTest, DenseModelsHaveNone) {
  EXPECT_EQ(train(job_of_model("llama")).ends.at(0).experts.count, 0);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
