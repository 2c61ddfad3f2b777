// Every optimizer of the registry through Engine::train_job(): three real steps each, ten steps
// beside the real Trainer where Trainer runs it on a CPU (tests/reference/optimizers.py), and the
// agreement of the registry with the experiments' property `optim`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "engine/training_fixture.h"
#include "sftbench/base/error.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/optim/optimizer.h"

namespace sftbench {
namespace SFTBENCH_FILE {

TrainingJob job_with(const std::string& optimizer) {
  TrainingJob job = job_of(golden_run("llama-float32"));
  job.optimizer.kind = named<OptimizerKind>(optimizer);
  return job;
}

std::vector<double> losses_of(const Recorder& run) {
  std::vector<double> losses;
  for (const StepEvent& step : run.steps) losses.push_back(step.loss);
  return losses;
}

std::vector<double> three_losses(const std::string& optimizer, double learning_rate) {
  TrainingJob job = job_with(optimizer);
  job.batches.gradient_accumulation_steps = 1;  // all that layer-wise kinds can do
  job.optimizer.learning_rate = learning_rate;
  job.optimizer.warmup_ratio = 0;
  return losses_of(train(job, 3));
}

class EveryOptimizer : public testing::TestWithParam<std::string> {};

TEST_P(EveryOptimizer, TrainsThreeSteps) {
  static const std::vector<double> kUntrained = three_losses("sgd", 0.0);
  const std::vector<double> losses = three_losses(GetParam(), 1e-3);
  ASSERT_EQ(losses.size(), 3u);
  EXPECT_EQ(losses[0], kUntrained[0]) << "the first loss is that of the checkpoint";
  for (size_t i = 1; i < losses.size(); ++i) {
    EXPECT_TRUE(std::isfinite(losses[i]));
    EXPECT_NE(losses[i], kUntrained[i]) << "step " << i << " changed nothing";
    EXPECT_LT(losses[i], kUntrained[i] + 0.5) << "and it did not make the model much worse";
  }
}

INSTANTIATE_TEST_SUITE_P(Names, EveryOptimizer, testing::ValuesIn(optimizer_names()),
                         [](const auto& tested) { return tested.param; });

// --- beside Trainer ------------------------------------------------------------------------------

class TrainerRun : public testing::TestWithParam<std::string> {};

const Json& trainer_runs() {
  static const Json kRuns =
      read_json_file(std::string(SFTBENCH_TEST_DATA) + "/optimizers/trainer.json");
  return kRuns;
}

std::vector<std::string> trainer_names() {
  std::vector<std::string> names;
  for (const Json& run : trainer_runs()) names.push_back(run["optim"]);
  return names;
}

// Two micro-batches a step, of which those that update in the backward make two updates.
TEST_P(TrainerRun, HasTheLossesOfTrainer) {
  for (const Json& golden : trainer_runs()) {
    if (golden["optim"] != GetParam()) continue;
    for (const bool reentrant : {false, true}) {
      // Both ways of checkpointing matter where the graph itself triggers updates.
      if (reentrant && GetParam() != "lomo" && GetParam() != "adalomo") continue;
      TrainingJob job = job_with(GetParam());
      job.optimizer.learning_rate = golden["learning_rate"];
      job.activations.use_reentrant = reentrant;
      const std::vector<double> losses = losses_of(train(job));
      ASSERT_EQ(losses.size(), golden["losses"].size());
      // As golden_training_test.cpp: float32, sums in another order.
      for (size_t i = 0; i < losses.size(); ++i) {
        EXPECT_NEAR(losses[i], golden["losses"][i].get<double>(), 1e-4) << "step " << i + 1;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Names, TrainerRun, testing::ValuesIn(trainer_names()),
                         [](const auto& tested) { return tested.param; });

// --- names, notes, refusals ----------------------------------------------------------------------

TEST(OptimizerNames, AreThoseOfTheExperiments) {
  const Catalog catalog = Catalog::read(SFTBENCH_SOURCE_DIR);
  std::set<std::string> known = {"adamw_torch_xla", "adamw_torch_npu_fused"};  // refused by plan
  for (const std::string& name : optimizer_names()) known.insert(name);
  for (const Experiment& experiment : catalog.experiments) {
    const PropertySpec* property = experiment.find("optim");
    ASSERT_NE(property, nullptr) << experiment.identifier;
    const std::set<std::string> offered(property->values.begin(), property->values.end());
    EXPECT_EQ(offered, known) << experiment.identifier;
  }
}

TEST(OptimizerNotes, ReachTheMeasurement) {
  EXPECT_THAT(train(job_with("sgd"), 1).begin.warnings,
              testing::Not(testing::Contains(testing::HasSubstr("optim"))));
  EXPECT_THAT(train(job_with("adamw_hf"), 1).begin.warnings,
              testing::Contains("optim adamw_hf: transformers removed it in 4.50; here it is the "
                                "rule that it had, in which epsilon is added before the bias "
                                "correction"));
  EXPECT_THAT(train(job_with("lomo"), 1).begin.warnings,
              testing::Contains("optim lomo updates each parameter as soon as its gradient is "
                                "there: gradients are not clipped, and grad_norm is that of all "
                                "micro-batches of a step"));
}

TEST(OptimizerRefusals, LossScalingCannotSkipAnUpdateThatIsDone) {
  TrainingJob job = job_with("lomo");
  job.precision.autocast = Autocast::kFp16;
  try {
    train(job, 1);
    FAIL() << "no exception";
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
    EXPECT_STREQ(error.what(),
                 "optimizer 'lomo' updates in the backward, before loss scaling knows whether a "
                 "gradient overflowed; autocast bf16 or no works");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
