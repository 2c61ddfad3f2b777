// Weights and activations that are not finite, and what is said about where they came from.
#include "engine/nonfinite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/train_steps.h"
#include "engine/training_fixture.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TrainingJob small_job(const std::string& name = "llama-float32") {
  return job_of(golden_run(name));
}

torch::Tensor& parameter(TrainingRun& run, const std::string& name) {
  for (const NamedParameter& each : run.model->parameters()) {
    if (each.name == name) return *each.tensor;
  }
  throw std::invalid_argument(name);
}

void set(TrainingRun& run, const std::string& name, double value) {
  const torch::NoGradGuard no_grad;
  parameter(run, name).flatten()[0] = value;
}

void multiply(TrainingRun& run, const std::string& name, double factor) {
  const torch::NoGradGuard no_grad;
  parameter(run, name).mul_(factor);
}

// What training ends with after `change` to the model.
RunError error_of(const TrainingJob& job, const std::function<void(TrainingRun&)>& change) {
  TrainingRun run = prepare_run(job, alone());
  change(run);
  try {
    train_steps(run, alone(), {}, [] { return false; });
  } catch (const RunError& error) {
    return error;
  }
  return {ReasonCode::kInternal, "no error"};
}

constexpr const char* kLossOfStep1 =
    "the loss of step 1 is nan on rank 0; the first module whose result is not finite is ";

struct Poison {
  std::string model, parameter, where;
};

class PoisonedWeight : public testing::TestWithParam<Poison> {};

TEST_P(PoisonedWeight, IsTracedToItsModule) {
  const Poison poison = GetParam();
  for (const bool checkpointing : {false, true}) {
    TrainingJob job = small_job(poison.model);
    job.activations.gradient_checkpointing = checkpointing;
    const RunError error =
        error_of(job, [&](TrainingRun& run) { set(run, poison.parameter, kNan); });
    EXPECT_EQ(to_string(error.code()), "WEIGHTS");
    EXPECT_EQ(error.what(), kLossOfStep1 + poison.where);
    EXPECT_EQ(error.evidence(),
              poison.where + ": " + poison.parameter + " holds 1 value that is not finite");
  }
}

// The first row of the embedding is that of <s>, which begins every entry.
INSTANTIATE_TEST_SUITE_P(
    EveryKind, PoisonedWeight,
    testing::Values(Poison{"llama-float32", "model.embed_tokens.weight", "model.embed_tokens"},
                    Poison{"llama-float32", "model.layers.0.input_layernorm.weight",
                           "model.layers.0.input_layernorm"},
                    Poison{"llama-float32", "model.layers.1.self_attn.v_proj.weight",
                           "model.layers.1.self_attn.v_proj"},
                    Poison{"granite-float32", "model.layers.1.self_attn.q_proj.bias",
                           "model.layers.1.self_attn.q_proj"},
                    Poison{"mistral-float32", "model.layers.2.self_attn.o_proj.weight",
                           "model.layers.2.self_attn.o_proj"},
                    Poison{"llama-float32", "model.layers.1.post_attention_layernorm.weight",
                           "model.layers.1.post_attention_layernorm"},
                    Poison{"llama-float32", "model.layers.1.mlp.down_proj.weight",
                           "model.layers.1.mlp.down_proj"},
                    Poison{"llama-float32", "model.norm.weight", "model.norm"},
                    Poison{"llama_all-float32", "lm_head.weight", "lm_head"}));

TEST(NonFinite, OverflowIsTracedToTheModuleAndBlamesNoParameter) {
  // Layer 1's own numbers stay below 65504, what it adds up to does not.
  TrainingJob job = small_job();
  job.precision.torch_dtype = ParameterDtype::kFloat16;
  RunError error = error_of(job, [](TrainingRun& run) {
    multiply(run, "model.layers.1.mlp.down_proj.weight", 2e4);
    multiply(run, "model.layers.1.mlp.up_proj.weight", 1e2);
  });
  EXPECT_EQ(to_string(error.code()), "INTERNAL");
  EXPECT_THAT(error.what(), HasSubstr("of step 1 is nan on rank 0; the first module whose result "
                                      "is not finite is model.layers.1.mlp.down_proj"));
  EXPECT_EQ(error.evidence(),
            "model.layers.1.mlp.down_proj: no parameter is to blame, the result "
            "is beyond the range of its dtype");

  error = error_of(job, [](TrainingRun& run) {
    multiply(run, "model.layers.2.mlp.gate_proj.weight", 3e3);
    multiply(run, "model.layers.2.mlp.up_proj.weight", 3e3);
  });
  EXPECT_THAT(error.what(), HasSubstr("model.layers.2.mlp.act_fn"));
}

TEST(NonFinite, TheSumOfTheResidualStreamBelongsToItsLayer) {
  TrainingJob job = small_job();
  job.precision.torch_dtype = ParameterDtype::kFloat16;
  const RunError error = error_of(job, [](TrainingRun& run) {
    const torch::NoGradGuard no_grad;
    // One channel: 60000 from the embedding, and again from the attention.
    parameter(run, "model.embed_tokens.weight").slice(1, 0, 1).fill_(6e4);
    for (const char* name : {"v_proj", "o_proj"}) {
      parameter(run, std::string("model.layers.0.self_attn.") + name + ".weight").fill_(8.0);
    }
  });
  EXPECT_THAT(error.what(), HasSubstr("first module whose result is not finite is model.layers.0"));
  EXPECT_EQ(error.evidence(),
            "model.layers.0: no parameter is to blame, the result is beyond the "
            "range of its dtype");
}

TEST(NonFinite, WhatAnUpdateSpoiltIsNoFaultOfTheWeights) {
  TrainingJob job = small_job();
  job.optimizer.learning_rate = 1e12;
  job.optimizer.warmup_ratio = 0.0;
  const RunError error = error_of(job, [](TrainingRun&) {});
  EXPECT_EQ(to_string(error.code()), "INTERNAL");
  EXPECT_THAT(error.what(),
              testing::MatchesRegex("the loss of step 2 is -?(nan|inf) on rank 0; the first module "
                                    "whose result is not finite is model\\.[a-z0-9_.]+"));
}

// A backward pass that leaves two gradients infinite.
class PoisonedBackward : public ActivationPolicy {
 public:
  explicit PoisonedBackward(TrainingRun& run)
      : poisoned_({parameter(run, "model.layers.0.self_attn.q_proj.weight"),
                   parameter(run, "model.layers.2.mlp.up_proj.weight")}) {}

  void backward(const torch::Tensor& loss) override {
    loss.backward();
    for (torch::Tensor& tensor : poisoned_) tensor.mutable_grad()[3][2] = INFINITY;
  }

 private:
  std::vector<torch::Tensor> poisoned_;
};

TEST(NonFinite, AFiniteLossWithOtherGradientsNamesTheFirstParameter) {
  const RunError error = error_of(small_job(), [](TrainingRun& run) {
    run.activations = std::make_unique<PoisonedBackward>(run);
  });
  EXPECT_EQ(to_string(error.code()), "INTERNAL");
  EXPECT_STREQ(error.what(),
               "the gradient norm of step 1 is inf on rank 0, though the loss is finite; the first "
               "gradient of the backward pass that is not finite is that of "
               "model.layers.2.mlp.up_proj.weight");
  EXPECT_EQ(error.evidence(), "2 of 29 parameters have a gradient that is not finite");
}

// Skipped updates stand in golden_training_test.cpp: they are no error.
TEST(NonFinite, ABadLossIsAnErrorUnderLossScalingToo) {
  TrainingJob job = small_job("llama-autocast_fp16");
  const RunError error =
      error_of(job, [](TrainingRun& run) { set(run, "model.layers.1.mlp.up_proj.weight", kNan); });
  EXPECT_EQ(error.what(), std::string(kLossOfStep1) + "model.layers.1.mlp.up_proj");
}

TEST(NonFinite, LookingChangesNothing) {
  TrainingRun run = prepare_run(small_job(), alone());
  const StepBatches batches = run.batches->step(0);
  const DeviceBatch& batch = batches.micro_batches.front();
  const auto loss = [&] {
    return run.model->loss({batch.input_ids, batch.packed}, batch.labels, 1.0, *run.activations)
        .item<double>();
  };
  const double before = loss();
  EXPECT_EQ(find_nonfinite(*run.model, {batch.input_ids, batch.packed}, batch.labels, 1.0).where,
            "");
  EXPECT_EQ(loss(), before);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
