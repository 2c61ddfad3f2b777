// attention_dropout of a model's config.json (Granite's is 0.1) in whole runs. That attention drops
// what it should is tests/ops/attention_dropout_test.cpp's; here: where, when, and the same again.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/train_steps.h"
#include "engine/training_fixture.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

TrainingJob job_with(double attention_dropout, const std::string& model = "granite-float32") {
  TrainingJob job = job_of(golden_run(model));
  job.model.hf_config["attention_dropout"] = attention_dropout;
  return job;
}

struct Curve {
  std::vector<double> losses, norms;
  bool operator==(const Curve& other) const {
    return losses == other.losses && norms == other.norms;
  }
};

Curve curve_of(const TrainingJob& job) {
  Curve curve;
  for (const StepEvent& step : train(job, 4).steps) {
    curve.losses.push_back(step.loss);
    curve.norms.push_back(step.grad_norm);
  }
  return curve;
}

// The gradient norms would differ if a recomputed layer dropped other keys than its forward pass.
TEST(AttentionDropoutTraining, RecomputedLayersDropWhatTheyDropped) {
  TrainingJob job = job_with(0.3);
  job.activations.gradient_checkpointing = false;
  const Curve kept = curve_of(job);
  ASSERT_EQ(kept.losses.size(), 4u);
  for (const bool reentrant : {false, true}) {
    job.activations = {.gradient_checkpointing = true, .use_reentrant = reentrant};
    const Curve recomputed = curve_of(job);
    for (size_t i = 0; i < kept.losses.size(); ++i) {
      // The same operators on the same numbers; sums may run over other threads.
      EXPECT_NEAR(recomputed.losses[i], kept.losses[i], 1e-5) << "reentrant " << reentrant;
      EXPECT_NEAR(recomputed.norms[i] / kept.norms[i], 1.0, 1e-4) << "reentrant " << reentrant;
    }
  }
}

TEST(AttentionDropoutTraining, FollowsFromTheSeedAndChangesTheLosses) {
  TrainingJob job = job_with(0.3);
  const Curve first = curve_of(job);
  EXPECT_EQ(curve_of(job), first);
  const Curve none = curve_of(job_with(0.0));
  double largest = 0;
  for (size_t i = 0; i < none.losses.size(); ++i) {
    largest = std::max(largest, std::abs(first.losses[i] - none.losses[i]));
    EXPECT_LT(std::abs(first.losses[i] - none.losses[i]), 0.5) << "the expectation is kept";
  }
  // Of one step alone the masks may leave the loss where it was.
  EXPECT_GT(largest, 1e-3);
}

TEST(AttentionDropoutTraining, TheEagerFormDropsTheSameOnCpus) {
  TrainingJob job = job_with(0.3, "mistral-float32");
  if (job.device.kind != "cpu") GTEST_SKIP() << "the library's attention draws its own on GPUs";
  const Curve fused = curve_of(job);
  job.kernels.flash_attention = false;
  const Curve eager = curve_of(job);
  for (size_t i = 0; i < fused.losses.size(); ++i) {
    EXPECT_NEAR(eager.losses[i], fused.losses[i], 1e-4);
    EXPECT_NEAR(eager.norms[i] / fused.norms[i], 1.0, 1e-3);
  }
}

TEST(AttentionDropoutTraining, EveryPassDrawsAnewAndPredictionsDropNothing) {
  const TrainingRun with = prepare_run(job_with(0.3), alone());
  const TrainingRun without = prepare_run(job_with(0.0), alone());
  const StepBatches batches = with.batches->step(0);
  const DeviceBatch& batch = batches.micro_batches.front();
  const auto loss = [&](const TrainingRun& run) {
    const torch::NoGradGuard no_grad;
    return run.model->loss({batch.input_ids, batch.packed}, batch.labels, 1.0, *run.activations)
        .item<double>();
  };
  EXPECT_NE(loss(with), loss(with));
  EXPECT_EQ(loss(without), loss(without));
  const torch::NoGradGuard no_grad;
  EXPECT_TRUE(with.model->logits(batch.input_ids).equal(without.model->logits(batch.input_ids)));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
