#include "sftbench/ops/adamw.h"

#include <cmath>

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace {

const std::vector<std::vector<int64_t>> kShapes = {{1}, {3, 5},  {64, 33}, {1000},
                                                   {0}, {70000}, {7}};

struct State {
  std::vector<Tensor> parameters, gradients, first, second;

  explicit State(torch::Dtype dtype) {
    for (size_t i = 0; i < kShapes.size(); ++i) {
      parameters.push_back(random_tensor(kShapes[i], dtype, 10 * i + 1));
      gradients.push_back(random_tensor(kShapes[i], dtype, 10 * i + 2));
      first.push_back(torch::zeros_like(parameters.back()));
      second.push_back(torch::zeros_like(parameters.back()));
    }
  }
  void step(const AdamWStep& step) { adamw_step(parameters, gradients, first, second, step); }
};

const AdamWStep kStep{1e-2, 0.9, 0.999, 1e-8, 0.1, 1};

// torch::optim::AdamW in float64 on the same numbers.
std::vector<Tensor> reference(const State& state, int steps, double gradient_scale) {
  std::vector<Tensor> parameters;
  for (const Tensor& p : state.parameters) parameters.push_back(leaf(p, torch::kFloat64));
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(kStep.learning_rate)
                                                .betas({kStep.beta1, kStep.beta2})
                                                .eps(kStep.epsilon)
                                                .weight_decay(kStep.weight_decay));
  for (int i = 0; i < steps; ++i) {
    for (size_t j = 0; j < parameters.size(); ++j) {
      parameters[j].mutable_grad() = state.gradients[j].to(torch::kFloat64) * gradient_scale;
    }
    optimizer.step();
  }
  return parameters;
}

TEST(AdamW, FiveStepsMatchTorch) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    State state(dtype);
    const std::vector<Tensor> expected = reference(state, 5, 0.25);
    for (int64_t i = 1; i <= 5; ++i) {
      AdamWStep step = kStep;
      step.step = i;
      step.gradient_scale = 0.25;
      state.step(step);
    }
    for (size_t i = 0; i < expected.size(); ++i) {
      expect_close("parameter " + std::to_string(i), state.parameters[i], expected[i]);
    }
  }
}

TEST(AdamW, AStepFromStoredMomentsRoundsOnce) {
  for (const auto dtype : kDtypes) {
    State state(dtype);
    AdamWStep step = kStep;
    step.step = 7;
    for (size_t i = 0; i < kShapes.size(); ++i) {
      state.first[i] = random_tensor(kShapes[i], dtype, 10 * i + 3);
      state.second[i] = random_tensor(kShapes[i], dtype, 10 * i + 4).abs();
      // Algorithm 2 of the paper, in float64.
      const auto wide = [](const Tensor& x) { return x.to(torch::kFloat64); };
      const Tensor g = wide(state.gradients[i]);
      const Tensor m = 0.9 * wide(state.first[i]) + 0.1 * g,
                   v = 0.999 * wide(state.second[i]) + 0.001 * g * g;
      const Tensor m_hat = m / (1 - std::pow(0.9, 7)), v_hat = v / (1 - std::pow(0.999, 7));
      const Tensor p = wide(state.parameters[i]);
      const Tensor expected = p - 1e-2 * (m_hat / (v_hat.sqrt() + 1e-8) + 0.1 * p);
      adamw_step({state.parameters[i]}, {state.gradients[i]}, {state.first[i]}, {state.second[i]},
                 step);
      expect_close("parameter", state.parameters[i], expected);
      expect_close("first moment", state.first[i], m);
      expect_close("second moment", state.second[i], v);
    }
  }
}

TEST(AdamW, GradientsAreNotWritten) {
  State state(torch::kFloat32);
  const Tensor before = state.gradients[2].clone();
  AdamWStep step = kStep;
  step.gradient_scale = 0.5;
  state.step(step);
  EXPECT_TRUE(state.gradients[2].equal(before));
}

TEST(AdamW, UpdatesTheElementsOfATransposedParameter) {
  State state(torch::kFloat32);
  Tensor transposed = state.parameters[2].clone().t(), m = torch::zeros_like(transposed),
         v = torch::zeros_like(transposed);
  adamw_step({transposed}, {state.gradients[2].t()}, {m}, {v}, kStep);
  state.step(kStep);
  expect_close("transposed", transposed.t(), state.parameters[2]);
}

TEST(AdamW, ListsThatDoNotMatchAreRefused) {
  const Tensor p = torch::zeros({3});
  try {
    adamw_step({p}, {}, {p}, {p}, kStep);
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "adamw_step: gradients must be 1 tensors, got 0");
  }
  try {
    adamw_step({p}, {torch::zeros({4})}, {p}, {p}, kStep);
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "adamw_step: gradients must be float32 [3] on cpu, got float32 [4] on cpu");
  }
}

TEST(GlobalNorm, MatchesFloat64) {
  for (const auto dtype : kDtypes) {
    const State state(dtype);
    double sum = 0.0;
    for (const Tensor& g : state.gradients)
      sum += g.to(torch::kFloat64).square().sum().item<double>();
    EXPECT_NEAR(global_norm(state.gradients) / std::sqrt(sum), 1.0, 1e-6);
  }
}

TEST(GlobalNorm, DoesNotDependOnTheNumberOfThreads) {
  const std::vector<Tensor> tensors = {random_tensor({300001}, torch::kFloat32, 1),
                                       random_tensor({5}, torch::kFloat32, 2)};
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const double alone = global_norm(tensors);
  at::set_num_threads(3);
  EXPECT_EQ(global_norm(tensors), alone);
  at::set_num_threads(threads);
}

TEST(GlobalNorm, NothingHasNormZero) {
  EXPECT_EQ(global_norm({}), 0.0);
  EXPECT_EQ(global_norm({torch::zeros({0}).to(test_device())}), 0.0);
}

TEST(GlobalNorm, NanAndInfinityShow) {
  const Tensor ones = torch::ones({5}).to(test_device());
  EXPECT_TRUE(std::isnan(global_norm({ones, ones * NAN})));
  EXPECT_TRUE(std::isinf(global_norm({ones, ones * INFINITY})));
}

}  // namespace
}  // namespace sftbench::ops
