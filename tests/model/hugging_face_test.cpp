// Each family against Hugging Face transformers: logits, loss and every gradient
// (tests/reference/models.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "model/golden.h"

namespace sftbench::testing {
namespace {

// float32: sums in another order. bfloat16 has 8 bits: one rounding is 2^-9 = 0.2 %, and the loss
// is a mean.
constexpr double kLogitTolerance = 1e-4;
constexpr double kLossTolerance = 1e-5;
constexpr double kGradientTolerance = 1e-4;
constexpr double kHalfLogitTolerance = 0.02;  // of the largest logit
constexpr double kHalfLossTolerance = 0.002;  // relative

std::vector<std::string> all_cases() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(case_folder(""))) {
    names.insert(entry.path().filename().string());
  }
  return {names.begin(), names.end()};
}

class HuggingFaceTest : public ::testing::TestWithParam<std::string> {};

TEST_P(HuggingFaceTest, LogitsAndLossInFloat32) {
  Golden golden(GetParam());
  const torch::NoGradGuard no_grad;
  LayerRunner runner;
  EXPECT_LE(max_difference(golden.model->logits(golden.input_ids()), golden.expected.at("logits")),
            kLogitTolerance);
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
    ASSERT_TRUE(parameter.tensor->grad().defined()) << parameter.name;
    const torch::Tensor& expected = golden.expected.at("grad." + parameter.name);
    EXPECT_LE(relative_difference(parameter.tensor->grad(), expected), kGradientTolerance)
        << parameter.name;
    ++compared;
  }
  const auto golden_gradients =
      std::count_if(golden.expected.begin(), golden.expected.end(),
                    [](const auto& entry) { return entry.first.rfind("grad.", 0) == 0; });
  EXPECT_EQ(compared, golden_gradients) << "parameters that only one side has";
}

TEST_P(HuggingFaceTest, ParametersInBfloat16) {
  Golden golden(GetParam(), torch::kBFloat16);
  const torch::NoGradGuard no_grad;
  LayerRunner runner;
  EXPECT_LE(relative_difference(golden.model->logits(golden.input_ids()),
                                golden.expected.at("bf16.logits")),
            kHalfLogitTolerance);
  const auto expected = golden.expected.at("bf16.loss").item<double>();
  EXPECT_NEAR(golden.loss(runner).item<double>(), expected, kHalfLossTolerance * expected);
}

TEST_P(HuggingFaceTest, AutocastToBfloat16) {
  Golden golden(GetParam());
  golden.model->set_compute_dtype(torch::kBFloat16);
  const torch::NoGradGuard no_grad;
  LayerRunner runner;
  EXPECT_LE(relative_difference(golden.model->logits(golden.input_ids()),
                                golden.expected.at("autocast.logits")),
            kHalfLogitTolerance);
  const auto expected = golden.expected.at("autocast.loss").item<double>();
  EXPECT_NEAR(golden.loss(runner).item<double>(), expected, kHalfLossTolerance * expected);
}

INSTANTIATE_TEST_SUITE_P(Cases, HuggingFaceTest, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param; });

TEST(HuggingFaceCases, CoverEveryFamilyAndRopeType) {
  EXPECT_THAT(all_cases(), ::testing::IsSupersetOf(
                               {"llama_plain", "llama_every_option", "mistral_plain",
                                "mistral_sliding_window", "granite_plain", "granite_every_option",
                                "llama_rope_linear", "llama_rope_dynamic", "llama_rope_yarn"}));
}

}  // namespace
}  // namespace sftbench::testing
