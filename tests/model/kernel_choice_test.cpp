// Each kernel that can be switched off: the plain form against Hugging Face with plain operators
// and eager attention (tests/reference/eager.py), and every switch alone against all of them on.
#include <gtest/gtest.h>

#include "model/golden.h"
#include "sftbench/ops/plain.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// float32: sums in another order, over at most a few hundred terms per value and three layers. The
// tests of the fused forms allow the same (hugging_face_test.cpp).
constexpr double kLossTolerance = 1e-5;
constexpr double kGradientTolerance = 1e-4;

ops::KernelChoice all_plain() {
  return {ops::plain::linear_cross_entropy, ops::plain::rms_norm,
          ops::plain::add_rms_norm,         ops::plain::apply_rope,
          ops::plain::causal_attention,     ops::plain::gated_rms_norm};
}

ops::KernelChoice one_plain(const std::string& name) {
  ops::KernelChoice kernels;
  if (name == "loss") kernels.linear_cross_entropy = ops::plain::linear_cross_entropy;
  if (name == "rms_norm") {
    kernels.rms_norm = ops::plain::rms_norm;
    kernels.add_rms_norm = ops::plain::add_rms_norm;
    kernels.gated_rms_norm = ops::plain::gated_rms_norm;
  }
  if (name == "rope") kernels.apply_rope = ops::plain::apply_rope;
  if (name == "attention") kernels.causal_attention = ops::plain::causal_attention;
  return kernels;
}

struct Computed {
  torch::Tensor loss;
  Tensors gradients;
};

Computed compute(Golden& golden) {
  LayerRunner runner;
  for (const NamedParameter& parameter : golden.model->parameters())
    parameter.tensor->requires_grad_(true);
  const torch::Tensor loss = golden.loss(runner);
  loss.backward();
  Computed computed{loss.detach(), {}};
  for (const NamedParameter& parameter : golden.model->parameters())
    computed.gradients["grad." + parameter.name] = parameter.tensor->grad();
  return computed;
}

class KernelChoiceTest : public ::testing::TestWithParam<std::string> {
 protected:
  Tensors eager_ = read_tensors(std::filesystem::path(SFTBENCH_TEST_DATA) / "eager" /
                                (GetParam() + ".safetensors"));

  // The largest error of a gradient, relative to the tensor's largest value.
  static double worst_gradient(const Computed& computed, const Tensors& expected,
                               const std::string& prefix) {
    double worst = 0;
    for (const auto& [name, gradient] : computed.gradients)
      worst = std::max(worst, relative_difference(gradient, expected.at(prefix + name)));
    return worst;
  }
};

TEST_P(KernelChoiceTest, PlainKernelsGiveHuggingFacesNumbers) {
  Golden golden(GetParam(), torch::kFloat32, all_plain());
  const Computed computed = compute(golden);
  EXPECT_NEAR(computed.loss.item<double>(), eager_.at("loss").item<double>(), kLossTolerance);
  EXPECT_LE(worst_gradient(computed, eager_, ""), kGradientTolerance);
}

TEST_P(KernelChoiceTest, EachSwitchAloneChangesRoundingsOnly) {
  Golden fused_model(GetParam());
  const Computed fused = compute(fused_model);
  for (const std::string name : {"loss", "rms_norm", "rope", "attention"}) {
    Golden golden(GetParam(), torch::kFloat32, one_plain(name));
    const Computed computed = compute(golden);
    EXPECT_NEAR(computed.loss.item<double>(), fused.loss.item<double>(), kLossTolerance) << name;
    EXPECT_LE(worst_gradient(computed, fused.gradients, ""), kGradientTolerance) << name;
  }
}

// Mamba-2 ends with a norm of its own, which its switch takes along.
TEST(KernelChoiceOfHybrids, PlainNormsChangeRoundingsOnly) {
  Golden fused_model("granitemoehybrid_every_option");
  const Computed fused = compute(fused_model);
  Golden golden("granitemoehybrid_every_option", torch::kFloat32, one_plain("rms_norm"));
  const Computed computed = compute(golden);
  EXPECT_NEAR(computed.loss.item<double>(), fused.loss.item<double>(), kLossTolerance);
  for (const auto& [name, gradient] : computed.gradients)
    EXPECT_LE(relative_difference(gradient, fused.gradients.at(name)), kGradientTolerance) << name;
}

// In bfloat16 one rounding is up to 0.4 %, and roundings add up over the layers: root mean squares,
// relative, as in hugging_face_test.cpp. A gradient has come the same way twice.
TEST_P(KernelChoiceTest, PlainKernelsFollowHuggingFaceInBfloat16) {
  Golden golden(GetParam(), torch::kBFloat16, all_plain());
  EXPECT_LE(rms_difference(golden.logits(), eager_.at("bf16.logits")), 0.025);
  const Computed computed = compute(golden);
  const auto loss = eager_.at("bf16.loss").item<double>();
  EXPECT_NEAR(computed.loss.item<double>(), loss, 0.002 * loss);
  double worst = 0;
  for (const auto& [name, gradient] : computed.gradients)
    worst = std::max(worst, rms_difference(gradient, eager_.at("bf16." + name)));
  EXPECT_LE(worst, 0.06);
  std::cout << "largest difference of a gradient: " << worst << '\n';
}

INSTANTIATE_TEST_SUITE_P(Families, KernelChoiceTest,
                         ::testing::Values("llama_every_option", "mistral_sliding_window",
                                           "granite_every_option"),
                         [](const auto& test) { return test.param; });

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
