// Each family against Hugging Face transformers: logits, loss and every gradient
// (tests/reference/models.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "model/golden.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// float32: sums in another order.
constexpr double kLogitTolerance = 1e-4;
constexpr double kLossTolerance = 1e-5;
constexpr double kGradientTolerance = 1e-4;
// bfloat16 has 8 bits: one rounding is up to 0.4 %, and roundings add up over the layers.
constexpr double kHalfLogitTolerance = 0.025;  // root mean square, relative
constexpr double kHalfLossTolerance = 0.002;   // relative; the loss is a mean
// How far from float32 Hugging Face's own bfloat16 is, and how much further this may be. The few
// logits of one case are a small sample: its ratio varies by a fifth from one instruction set to
// the next. The mean of all cases does not.
constexpr double kHalfErrorRatio = 1.5;
constexpr double kMeanHalfErrorRatio = 1.03;

class HuggingFaceTest : public ::testing::TestWithParam<std::string> {};

TEST_P(HuggingFaceTest, LogitsAndLossInFloat32) {
  Golden golden(GetParam());
  const torch::NoGradGuard no_grad;
  LayerRunner runner;
  EXPECT_LE(max_difference(golden.logits(), golden.expected_logits("logits")), kLogitTolerance);
  EXPECT_NEAR(golden.loss(runner).item<double>(), golden.expected.at("loss").item<double>(),
              kLossTolerance);
}

TEST_P(HuggingFaceTest, EveryGradientInFloat32) {
  Golden golden(GetParam());
  LayerRunner runner;
  for (const NamedParameter& parameter : golden.model->parameters())
    parameter.tensor->requires_grad_(true);
  golden.loss(runner).backward();
  size_t compared = 0;
  for (const NamedParameter& parameter : golden.model->parameters()) {
    if (parameter.unused) {
      EXPECT_EQ(golden.expected.count("grad." + parameter.name), 0) << parameter.name;
      continue;
    }
    ASSERT_TRUE(parameter.tensor->grad().defined()) << parameter.name;
    const torch::Tensor& expected = golden.expected.at("grad." + parameter.name);
    ++compared;
    // A softmax does not see what all scores have in common: this gradient is zero but for
    // rounding.
    if (parameter.name.find("vision_tower") != std::string::npos &&
        parameter.name.ends_with("k_proj.bias")) {
      EXPECT_LE(max_difference(parameter.tensor->grad(), expected), 1e-6) << parameter.name;
      continue;
    }
    EXPECT_LE(relative_difference(parameter.tensor->grad(), expected), kGradientTolerance)
        << parameter.name;
  }
  const auto golden_gradients =
      std::count_if(golden.expected.begin(), golden.expected.end(),
                    [](const auto& entry) { return entry.first.rfind("grad.", 0) == 0; });
  EXPECT_EQ(compared, golden_gradients) << "parameters that only one side has";
}

// The distance of our half-precision logits from float32 in that of Hugging Face's. `kind` as
// below.
double half_error_ratio(Golden& golden, const std::string& kind) {
  const torch::Tensor exact = golden.expected_logits("logits");
  return rms_difference(golden.logits(), exact) /
         rms_difference(golden.expected_logits(kind + ".logits"), exact);
}

// Hugging Face's default multiplies experts in float32 under autocast, its loop over them does not.
std::string autocast_kind(const Golden& golden) {
  const bool experts = golden.expected.count("autocast.eager_experts.logits") > 0;
  return experts ? "autocast.eager_experts" : "autocast";
}

// `kind`: "bf16" or "autocast", what the golden file calls it.
void expect_same_in_half_precision(Golden& golden, const std::string& kind) {
  const torch::NoGradGuard no_grad;
  LayerRunner runner;
  const torch::Tensor logits = golden.logits(), theirs = golden.expected_logits(kind + ".logits");
  EXPECT_LE(rms_difference(logits, theirs), kHalfLogitTolerance);
  EXPECT_LE(half_error_ratio(golden, kind), kHalfErrorRatio);
  const auto loss = golden.expected.at(kind + ".loss").item<double>();
  EXPECT_NEAR(golden.loss(runner).item<double>(), loss, kHalfLossTolerance * loss);
}

TEST_P(HuggingFaceTest, ParametersInBfloat16) {
  Golden golden(GetParam(), torch::kBFloat16);
  expect_same_in_half_precision(golden, "bf16");
}

TEST_P(HuggingFaceTest, AutocastToBfloat16) {
  Golden golden(GetParam());
  golden.model->set_compute_dtype(torch::kBFloat16);
  expect_same_in_half_precision(golden, autocast_kind(golden));
}

INSTANTIATE_TEST_SUITE_P(Cases, HuggingFaceTest, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param; });

// Geometric mean over all cases.
double mean_half_error_ratio(bool autocast) {
  const torch::NoGradGuard no_grad;
  double sum = 0;
  for (const std::string& name : all_cases()) {
    Golden golden(name, autocast ? torch::kFloat32 : torch::kBFloat16);
    if (autocast) golden.model->set_compute_dtype(torch::kBFloat16);
    sum += std::log(half_error_ratio(golden, autocast ? autocast_kind(golden) : "bf16"));
  }
  return std::exp(sum / static_cast<double>(all_cases().size()));
}

TEST(HuggingFaceCases, HalfPrecisionErrsNoMoreOnTheWhole) {
  EXPECT_LE(mean_half_error_ratio(true), kMeanHalfErrorRatio);
  EXPECT_LE(mean_half_error_ratio(false), kMeanHalfErrorRatio);
}

TEST(HuggingFaceCases, CoverEveryFamilyAndRopeType) {
  EXPECT_THAT(all_cases(), ::testing::IsSupersetOf(
                               {"llama_plain", "llama_every_option", "mistral_plain",
                                "mistral_sliding_window", "granite_plain", "granite_every_option",
                                "llama_rope_linear", "llama_rope_dynamic", "llama_rope_yarn"}));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
