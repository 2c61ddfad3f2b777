#include "engine/activation_checkpoint.h"

#include <gtest/gtest.h>

#include "engine/host_inputs.h"
#include "engine/step_batches.h"
#include "engine/training_fixture.h"
#include "sftbench/base/torch.h"
#include "sftbench/model/causal_lm.h"
#include "sftbench/ops/plain.h"
#include "sftbench/ops/recomputation.h"
#include "test_device.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// tanh(x W_i) over three layers between an embedding and a sum, counting how often each layer runs.
struct ToyModel {
  torch::Tensor embedding = torch::linspace(-1, 1, 12).view({3, 4}).clone();
  std::vector<torch::Tensor> weights;
  std::vector<int> runs = {0, 0, 0};

  ToyModel() {
    for (int i = 0; i < 3; ++i) {
      weights.push_back(torch::sin(torch::arange(16.0f) + i).view({4, 4}).requires_grad_(true));
    }
  }

  torch::Tensor loss(LayerRunner& runner) {
    torch::Tensor x = embedding * 1.5;
    for (int64_t i = 0; i < 3; ++i) {
      x = runner.run(
          i,
          [this, i](const torch::Tensor& h) {
            ++runs[static_cast<size_t>(i)];
            return h + torch::tanh(h.matmul(weights[static_cast<size_t>(i)]));
          },
          x);
    }
    return (x * x).sum();
  }
};

void expect_equal_gradients(ToyModel& model, const ToyModel& expected) {
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(torch::equal(model.weights[i].grad(), expected.weights[i].grad())) << "layer " << i;
  }
  EXPECT_EQ(model.embedding.grad().defined(), expected.embedding.grad().defined());
  if (expected.embedding.grad().defined()) {
    EXPECT_TRUE(torch::equal(model.embedding.grad(), expected.embedding.grad()));
  }
}

using MakePolicy = std::unique_ptr<ActivationPolicy> (*)(int64_t);

class Checkpointing : public ::testing::TestWithParam<MakePolicy> {
 protected:
  // Two backward passes, so that accumulation is seen.
  static ToyModel trained(ActivationPolicy& policy, bool train_embedding) {
    ToyModel model;
    model.embedding.requires_grad_(train_embedding);
    for (int i = 0; i < 2; ++i) policy.backward(model.loss(policy));
    return model;
  }
};

TEST_P(Checkpointing, GivesTheGradientsOfKeptActivations) {
  for (const bool train_embedding : {true, false}) {
    const auto policy = GetParam()(3), keep = keep_activations();
    const ToyModel expected = trained(*keep, train_embedding);
    ToyModel model = trained(*policy, train_embedding);
    expect_equal_gradients(model, expected);
  }
}

TEST_P(Checkpointing, RunsEveryLayerButTheLastTwice) {
  const auto policy = GetParam()(3);
  ToyModel model;
  policy->backward(model.loss(*policy));
  EXPECT_EQ(model.runs, (std::vector<int>{2, 2, 1}));
}

TEST_P(Checkpointing, LeavesOutWhatRecomputedLayersMultiplyLast) {
  const auto policy = GetParam()(2);
  const torch::Tensor weight = torch::eye(4).requires_grad_(true);
  std::vector<bool> first, last;
  const auto layer = [&](const torch::Tensor& x) {
    first.push_back(ops::values_needed());
    const ops::LastProduct of_the_layer;
    last.push_back(ops::values_needed());
    return x.matmul(weight);
  };
  torch::Tensor x = torch::ones({3, 4});
  for (int64_t i = 0; i < 2; ++i) x = policy->run(i, layer, x);
  policy->backward(x.sum());
  EXPECT_EQ(first, (std::vector<bool>{true, true, true}));
  EXPECT_EQ(last, (std::vector<bool>{true, true, false}));
  EXPECT_TRUE(ops::values_needed());
}

// Of a layer that runs again: its output, and where the policy may, the gradient that came in.
TEST_P(Checkpointing, HoldsNeitherOutputNorGradientOfARecomputedLayer) {
  using Weak = c10::weak_intrusive_ptr<at::TensorImpl, c10::UndefinedTensorImpl>;
  const bool reentrant = GetParam() == MakePolicy{checkpoint_reentrant};
  const auto policy = GetParam()(2);
  const torch::Tensor weight = torch::eye(4).requires_grad_(true);
  std::optional<Weak> output, gradient;
  int looked = 0;
  const auto layer = [&](const torch::Tensor& x) {
    const torch::Tensor inner = x.matmul(weight);
    const torch::Tensor y = torch::tanh(inner);
    if (!ops::recomputing()) return y;
    output.emplace(y.getIntrusivePtr());
    y.register_hook([&](const torch::Tensor& came) { gradient.emplace(came.getIntrusivePtr()); });
    inner.register_hook([&](const torch::Tensor&) {
      ++looked;
      EXPECT_EQ(output->use_count(), 0);
      if (reentrant) return;
      EXPECT_EQ(gradient->use_count(), 0);
    });
    return y;
  };
  torch::Tensor x = torch::ones({3, 4});
  for (int64_t i = 0; i < 2; ++i) x = policy->run(i, layer, x);
  policy->backward(x.sum());
  EXPECT_EQ(looked, 1);
}

TEST_P(Checkpointing, SurvivesAForwardPassWithoutBackward) {
  const auto policy = GetParam()(3), keep = keep_activations();
  ToyModel model, expected;
  model.loss(*policy);
  policy->backward(model.loss(*policy));
  keep->backward(expected.loss(*keep));
  expect_equal_gradients(model, expected);
}

const ops::KernelChoice kPlain = {ops::plain::linear_cross_entropy, ops::plain::rms_norm,
                                  ops::plain::add_rms_norm,         ops::plain::apply_rope,
                                  ops::plain::causal_attention,     ops::plain::gated_rms_norm};

// Every parameter's gradient after two micro-batches of one of the training goldens' models.
std::vector<torch::Tensor> gradients_of(const std::string& name, const ops::KernelChoice& kernels,
                                        MakePolicy make_policy) {
  const std::string folder = training_folder() + "/" + name;
  const auto model = make_causal_lm(read_json_file(folder + "/config.json"), torch::kFloat32,
                                    torch::kCPU, kernels);
  load_weights(*model, folder);
  for (const NamedParameter& parameter : model->parameters())
    parameter.tensor->requires_grad_(true);
  const auto policy =
      make_policy == nullptr ? keep_activations() : make_policy(model->layer_count());
  const torch::Tensor ids = torch::arange(2 * 20).view({2, 20});
  for (int i = 0; i < 2; ++i) policy->backward(model->loss(ids + i, ids + i, 38.0, *policy));
  std::vector<torch::Tensor> gradients;
  for (const NamedParameter& parameter : model->parameters())
    gradients.push_back(parameter.tensor->grad());
  return gradients;
}

TEST_P(Checkpointing, GivesTheSameBitsForEveryFamilyAndKernel) {
  for (const std::string name : {"llama", "llama_all", "mistral", "granite"}) {
    for (const ops::KernelChoice& kernels : {ops::KernelChoice{}, kPlain}) {
      const auto expected = gradients_of(name, kernels, nullptr);
      const auto found = gradients_of(name, kernels, GetParam());
      ASSERT_EQ(found.size(), expected.size());
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_TRUE(found[i].equal(expected[i])) << name << " parameter " << i;
      }
    }
  }
}

// A CPU has no other memory: its copies go from there to there.
std::unique_ptr<ActivationPolicy> checkpoint_on_this_host(int64_t layer_count) {
  return checkpoint_on_host(layer_count, torch::kCPU);
}

INSTANTIATE_TEST_SUITE_P(Variants, Checkpointing,
                         ::testing::Values(checkpoint_reentrant, checkpoint_segments,
                                           checkpoint_on_this_host));

// --- inputs on the host --------------------------------------------------------------------------

torch::Tensor numbered_input(int64_t number) {
  return torch::full({2, 3}, static_cast<double>(number)).to(test_device());
}

int64_t holders(const torch::Tensor& tensor) {
  return static_cast<int64_t>(tensor.storage().use_count());
}

TEST(HostInputs, ComeBackInTheOrderOfTheBackwardPass) {
  HostInputs inputs(test_device());
  for (int pass = 0; pass < 2; ++pass) {
    inputs.clear();
    for (int64_t i = 0; i < 5; ++i) inputs.put(numbered_input(i));
    inputs.begin_backward();
    for (int64_t i = 5; i-- > 0;) {
      const torch::Tensor input = inputs.take();
      EXPECT_EQ(input.device().type(), test_device().type());
      EXPECT_TRUE(torch::equal(input, numbered_input(i))) << i;
    }
    EXPECT_TRUE(inputs.empty());
  }
}

// What the host has, the device need not keep: an input is let go when the next one leaves.
TEST(HostInputs, AreLetGoOnTheDevice) {
  HostInputs inputs(test_device());
  const torch::Tensor first = numbered_input(1), second = numbered_input(2);
  inputs.put(first);
  EXPECT_EQ(holders(first), 2);
  inputs.put(second);
  EXPECT_EQ(holders(first), 1);
  EXPECT_EQ(holders(second), 2);
  inputs.begin_backward();
  EXPECT_EQ(holders(second), 1);
}

TEST(HostInputs, OfAForwardPassWithoutBackwardAreForgotten) {
  HostInputs inputs(test_device());
  inputs.put(numbered_input(1));
  inputs.clear();
  inputs.put(numbered_input(2));
  inputs.begin_backward();
  EXPECT_TRUE(torch::equal(inputs.take(), numbered_input(2)));
  EXPECT_TRUE(inputs.empty());
}

TEST(CausalAttentionFlops, CountEveryPairThatMeets) {
  const AttentionShape shape = {.layers = {{.window = 0, .query_width = 2 * 3 * 4}}};
  EXPECT_DOUBLE_EQ(causal_attention_flops(3, shape), 4.0 * (1 + 2 + 3) * 2 * 3 * 4);
}

TEST(CausalAttentionFlops, CountTheScanOfStates) {
  const AttentionShape shape = {.layers = {}, .scanned_values = 6 * 4};
  EXPECT_DOUBLE_EQ(causal_attention_flops(5, shape), 7.0 * 5 * 6 * 4);
}

TEST(CausalAttentionFlops, RespectTheWindow) {
  const AttentionShape shape = {.layers = {{.window = 2, .query_width = 1}}};
  EXPECT_DOUBLE_EQ(causal_attention_flops(5, shape), 4.0 * (1 + 2 + 2 + 2 + 2));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
