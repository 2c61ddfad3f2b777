// One rank that goes through a strategy and the communication library, alone: the same bits as
// without either, and what the layer holds and does for it. On a GPU (SFTBENCH_TEST_DEVICE=cuda)
// that is NCCL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "engine/train_steps.h"
#include "engine/training_fixture.h"
#include "parallel/gloo_communicator.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

struct Outcome {
  std::vector<double> losses, norms;
  std::map<std::string, torch::Tensor> values;
  RankReport report;
  int64_t held_bytes = 0;  // at the end, by the allocator
};

Outcome outcome_of(const TrainingJob& job) {
  const int64_t before_bytes = make_training_device(job.device, {})->allocated_bytes();
  TrainingRun run = prepare_run(job, alone());
  Recorder recorder;
  train_steps(run, alone(), {&recorder}, [] { return false; });
  Outcome outcome;
  outcome.held_bytes = run.device->allocated_bytes() - before_bytes;
  for (const StepEvent& step : recorder.steps) {
    outcome.losses.push_back(step.loss);
    outcome.norms.push_back(step.grad_norm);
  }
  run.parameters->visit_whole([&](const std::string& name, const torch::Tensor& values) {
    outcome.values[name] = values.detach().clone();
  });
  outcome.report = recorder.ends.at(0).ranks.at(0);
  return outcome;
}

TrainingJob small_job(const std::string& golden, const std::string& strategy) {
  TrainingJob job = job_of(golden_run(golden));
  job.batches.max_steps = 3;
  // The norm's terms come tensor by tensor here and from one flat array there: a factor that
  // depends on it would differ in its last bit.
  job.optimizer.max_grad_norm = 0;
  job.device.threads = 1;
  job.parallel.strategy = named<Strategy>(strategy);
  job.parallel.distribute_one_rank = true;
  return job;
}

TrainingJob undistributed(TrainingJob job) {
  job.parallel = {};
  return job;
}

// A GPU's libraries multiply another way when they add to a gradient than when they write one.
double tolerance_of(const TrainingJob& job) {
  if (job.device.kind == "cpu") return 0;
  return job.precision.torch_dtype == ParameterDtype::kFloat32 ? 1e-5 : 4e-3;
}

void expect_same_bits(const TrainingJob& job) {
  SCOPED_TRACE(std::string(name_of(job.parallel.strategy)) + ", " +
               name_of(job.precision.torch_dtype) + ", " + name_of(job.tuning));
  const Outcome distributed = outcome_of(job), plain = outcome_of(undistributed(job));
  ASSERT_EQ(distributed.losses.size(), plain.losses.size());
  for (size_t i = 0; i < plain.losses.size(); ++i) {
    EXPECT_NEAR(distributed.losses[i], plain.losses[i], tolerance_of(job) * plain.losses[i]);
    EXPECT_NEAR(distributed.norms[i], plain.norms[i],
                std::max(1e-6, tolerance_of(job)) * plain.norms[i]);
  }
  if (job.device.kind != "cpu") return;
  ASSERT_EQ(distributed.values.size(), plain.values.size());
  for (const auto& [name, values] : plain.values) {
    const auto found = distributed.values.find(name);
    ASSERT_NE(found, distributed.values.end()) << name;
    EXPECT_TRUE(torch::equal(found->second, values)) << name;
  }
}

class DistributeOneRank : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (job_of(golden_run("llama-float32")).device.kind == "cpu" && !has_gloo()) {
      GTEST_SKIP() << "this build has no Gloo";
    }
  }
};

TEST_P(DistributeOneRank, TrainsToTheSameBits) {
  for (const char* golden : {"llama-float32", "granite-bfloat16"}) {
    expect_same_bits(small_job(golden, GetParam()));
  }
}

TEST_P(DistributeOneRank, TrainsToTheSameBitsWithFrozenParametersAndSeveralMicroBatches) {
  TrainingJob job = small_job("llama-float32", GetParam());
  job.batches.gradient_accumulation_steps = 3;
  job.activations.gradient_checkpointing = true;
  job.tuning = TuningMethod::kLora;
  job.lora = {.rank = 3, .alpha = 16, .dropout = 0, .target_modules = {"q_proj", "v_proj"}};
  expect_same_bits(job);
}

TEST_P(DistributeOneRank, GoesThroughTheTransportAndSendsNothing) {
  const RankReport report = outcome_of(small_job("llama-float32", GetParam())).report;
  std::map<std::string, CollectiveReport> of;
  for (const CollectiveReport& collective : report.collectives) {
    EXPECT_EQ(collective.sent_bytes, 0) << collective.operation;
    EXPECT_GT(collective.calls, 0) << collective.operation;
    of[collective.operation] = collective;
  }
  const std::string strategy = GetParam();
  const bool sharded = strategy != "DDP" && strategy != "NO_SHARD";
  const bool keeps_parameters = !sharded || strategy == "SHARD_OPTIM";
  EXPECT_EQ(of.count("all_gather"), sharded ? 1U : 0U);
  EXPECT_EQ(of.count("reduce_scatter"), sharded ? 1U : 0U);
  EXPECT_EQ(report.gathered_peak_bytes > 0, !keeps_parameters);
}

// Of 2 MB, so that what the allocator rounds up is less than 2 %.
TEST_P(DistributeOneRank, HoldsWhatItSaysItHolds) {
  TrainingJob job = small_job("llama-float32", GetParam());
  job.model.weights_directory.clear();
  job.model.hf_config.update({{"hidden_size", 256},
                              {"intermediate_size", 512},
                              {"num_attention_heads", 4},
                              {"num_key_value_heads", 4},
                              {"head_dim", 64},
                              {"vocab_size", 1024}});
  const Outcome outcome = outcome_of(job);
  const RankReport& report = outcome.report;
  const bool whole = report.gathered_peak_bytes == 0;
  // Between steps sharded gradients are dropped, and replicas keep theirs in their buckets.
  const auto kept =
      static_cast<double>(report.parameter_bytes + report.optimizer_state_bytes +
                          report.gathered_peak_bytes + (whole ? report.gradient_bytes : 0));
  EXPECT_NEAR(static_cast<double>(outcome.held_bytes), kept, 0.02 * kept);
}

INSTANTIATE_TEST_SUITE_P(Strategies, DistributeOneRank,
                         testing::Values("DDP", "NO_SHARD", "FULL_SHARD", "SHARD_GRAD_OP",
                                         "HYBRID_SHARD", "HYBRID_SHARD_ZERO2", "SHARD_OPTIM"),
                         [](const auto& tested) { return std::string(tested.param); });

TEST(DistributeOneRankRefuses, WhatUpdatesBeforeAReduction) {
  TrainingJob job = small_job("llama-float32", "FULL_SHARD");
  job.optimizer.kind = OptimizerKind::kLomo;
  try {
    train(job);
    ADD_FAILURE() << "no refusal";
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
    EXPECT_THAT(error.what(), testing::HasSubstr("updates in the backward"));
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
