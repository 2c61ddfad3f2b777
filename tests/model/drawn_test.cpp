// The families of tests/reference/drawn.py against transformers: logits, every gradient and six
// steps of gradient descent in float64, and how far half precision is from it.
#include <gtest/gtest.h>

#include <cmath>

#include "model/golden.h"
#include "sftbench/ops/plain.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// Relative to the norm. Cosines are float32 everywhere, and libraries and instruction sets round
// them differently. The gradient of a key's bias, whose terms cancel, is off by 9e-7 at the
// baseline.
constexpr double kDigestTolerance = 2e-6;
constexpr double kLossTolerance = 1e-6;
constexpr double kNormTolerance = 1e-5;  // relative
// As in hugging_face_test.cpp.
constexpr double kHalfLossTolerance = 0.002;
constexpr double kHalfErrorRatio = 1.5;
constexpr double kMeanHalfErrorRatio = 1.03;

// `digest`: the product with drawn values, and the norm.
void expect_digest(const torch::Tensor& values, const std::string& name, const Json& digest,
                   const std::string& what) {
  const torch::Tensor flat = values.detach().flatten().cpu();
  const double norm = digest[1].get<double>();
  const double allowed = kDigestTolerance * std::max(norm, 1e-3);
  EXPECT_NEAR(flat.norm().item<double>(), norm, allowed) << what;
  EXPECT_NEAR(flat.dot(drawn_values(name, flat.numel())).item<double>(), digest[0].get<double>(),
              allowed)
      << what;
}

double gradient_norm(CausalLm& model) {
  double squares = 0;
  for (const NamedParameter& parameter : model.parameters())
    squares += parameter.tensor->grad().square().sum().item<double>();
  return std::sqrt(squares);
}

void descend(CausalLm& model, double learning_rate) {
  const torch::NoGradGuard no_grad;
  for (const NamedParameter& parameter : model.parameters()) {
    parameter.tensor->sub_(parameter.tensor->grad(), learning_rate);
    parameter.tensor->mutable_grad() = torch::Tensor();
  }
}

class DrawnTest : public ::testing::TestWithParam<std::string> {};

void expect_logits(Golden& golden) {
  const torch::NoGradGuard no_grad;
  const torch::Tensor logits = golden.logits();
  const Json& expected = golden.drawn["logits"];
  ASSERT_EQ(logits.size(0), static_cast<int64_t>(expected.size()));
  for (int64_t i = 0; i < logits.size(0); ++i)
    expect_digest(logits[i], "logits", expected[static_cast<size_t>(i)],
                  "position " + std::to_string(i));
}

void expect_gradients(Golden& golden) {
  for (const NamedParameter& parameter : golden.model->parameters())
    parameter.tensor->requires_grad_(true);
  LayerRunner runner;
  golden.loss(runner).backward();
  const Json& expected = golden.drawn["gradients"];
  EXPECT_EQ(golden.model->parameters().size(), expected.size());
  for (const NamedParameter& parameter : golden.model->parameters()) {
    ASSERT_TRUE(expected.contains(parameter.name)) << parameter.name;
    expect_digest(parameter.tensor->grad(), parameter.name, expected[parameter.name],
                  parameter.name);
  }
}

TEST_P(DrawnTest, LogitsAndGradientsInFloat64) {
  Golden golden(GetParam(), torch::kFloat64);
  expect_logits(golden);
  expect_gradients(golden);
}

TEST_P(DrawnTest, PlainKernelsGiveTheSameLogitsAndGradients) {
  Golden golden(GetParam(), torch::kFloat64,
                {ops::plain::linear_cross_entropy, ops::plain::rms_norm, ops::plain::add_rms_norm,
                 ops::plain::apply_rope, ops::plain::causal_attention, ops::plain::gated_rms_norm});
  expect_logits(golden);
  expect_gradients(golden);
}

TEST_P(DrawnTest, SixStepsOfGradientDescentInFloat64) {
  Golden golden(GetParam(), torch::kFloat64);
  for (const NamedParameter& parameter : golden.model->parameters())
    parameter.tensor->requires_grad_(true);
  ASSERT_EQ(golden.drawn["steps"].size(), 6u);
  for (const Json& step : golden.drawn["steps"]) {
    LayerRunner runner;
    const torch::Tensor loss = golden.loss(runner);
    loss.backward();
    EXPECT_NEAR(loss.item<double>(), step[0].get<double>(), kLossTolerance);
    const double norm = step[1].get<double>();
    EXPECT_NEAR(gradient_norm(*golden.model), norm, kNormTolerance * norm);
    descend(*golden.model, golden.drawn["learning_rate"]);
  }
}

// Of our logits' error and of transformers', each from the exact ones.
struct HalfErrors {
  double ours, theirs;
};

HalfErrors half_errors(const std::string& name, bool autocast) {
  const torch::NoGradGuard no_grad;
  Golden exact(name, torch::kFloat64);
  Golden half(name, autocast ? torch::kFloat32 : torch::kBFloat16);
  if (autocast) half.model->set_compute_dtype(torch::kBFloat16);
  const Json& expected = half.drawn[autocast ? "autocast" : "bfloat16"];
  LayerRunner runner;
  const auto loss = expected["loss"].get<double>();
  EXPECT_NEAR(half.loss(runner).item<double>(), loss, kHalfLossTolerance * loss) << name;
  return {rms_difference(half.logits(), exact.logits()), expected["error"].get<double>()};
}

TEST_P(DrawnTest, HalfPrecisionErrsNoMoreThanTransformers) {
  for (const bool autocast : {true, false}) {
    const HalfErrors errors = half_errors(GetParam(), autocast);
    EXPECT_LE(errors.ours, kHalfErrorRatio * errors.theirs) << (autocast ? "autocast" : "bfloat16");
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, DrawnTest, ::testing::ValuesIn(drawn_cases()),
                         [](const auto& test) { return test.param; });

TEST(DrawnCases, HalfPrecisionErrsNoMoreOnTheWhole) {
  for (const bool autocast : {true, false}) {
    double sum = 0;
    for (const std::string& name : drawn_cases()) {
      const HalfErrors errors = half_errors(name, autocast);
      sum += std::log(errors.ours / errors.theirs);
    }
    EXPECT_LE(std::exp(sum / static_cast<double>(drawn_cases().size())), kMeanHalfErrorRatio);
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
