// The loops behind the optimizers against the same rules on ATen tensors in float64: dtypes,
// widths, blocks, layouts. That the rules themselves are right is held by
// tests/optim/golden_optimizer_test.cpp.
#include "sftbench/ops/update.h"

#include "ops/op_test_support.h"
#include "sftbench/ops/adafactor.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

const std::vector<std::vector<int64_t>> kShapes = {{1}, {3, 5}, {64, 33}, {0}, {40000}, {7}};

RuleFactors<double> factors() {
  RuleFactors<double> f;
  f.gradient_scale = 0.25;
  f.decay = 0.999;
  f.l2 = 0.01;
  f.step_size = 0.02;
  f.beta1 = 0.9;
  f.one_minus_beta1 = 0.1;
  f.beta2 = 0.99;
  f.one_minus_beta2 = 0.01;
  f.beta3 = 0.98;
  f.one_minus_beta3 = 0.02;
  f.root_factor = 1.25;
  f.epsilon = 1e-4;
  f.mean_factor = 1.5;
  f.alpha = 2.0;
  f.mix = 0.3;
  f.mixed_step = -0.01;
  return f;
}

// States are of squares or not: positive numbers do for both.
UpdatedTensor random_update(UpdateRule rule, at::IntArrayRef shape, torch::Dtype dtype,
                            torch::Dtype state_dtype) {
  UpdatedTensor updated{random_tensor(shape, dtype, 1), random_tensor(shape, dtype, 2), {}};
  for (int i = 0; i < state_count(rule); ++i) {
    updated.states.push_back(random_tensor(shape, state_dtype, 3 + i).abs());
  }
  return updated;
}

UpdatedTensor in_float64(const UpdatedTensor& updated) {
  UpdatedTensor wide{
      updated.parameter.to(torch::kFloat64, false, true), updated.gradient.to(torch::kFloat64), {}};
  for (const Tensor& state : updated.states) {
    wide.states.push_back(state.to(torch::kFloat64, false, true));
  }
  return wide;
}

void expect_same(const std::string& what, const UpdatedTensor& actual,
                 const UpdatedTensor& expected) {
  expect_close(what + ", parameter", actual.parameter, expected.parameter);
  for (size_t i = 0; i < actual.states.size(); ++i) {
    expect_close(what + ", state " + std::to_string(i), actual.states[i], expected.states[i]);
  }
}

class Update : public ::testing::TestWithParam<int> {
 protected:
  const UpdateRule rule_ = static_cast<UpdateRule>(GetParam());
};

TEST_P(Update, EveryDtypeIsRoundedOnce) {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
    for (const auto state_dtype : {dtype, torch::kFloat32}) {
      std::vector<UpdatedTensor> tensors, expected;
      for (const auto& shape : kShapes) {
        tensors.push_back(random_update(rule_, shape, dtype, state_dtype));
        expected.push_back(in_float64(tensors.back()));
      }
      update(rule_, tensors, factors());
      update(rule_, expected, factors());
      for (size_t i = 0; i < tensors.size(); ++i) {
        expect_same("tensor " + std::to_string(i), tensors[i], expected[i]);
      }
    }
  }
}

TEST_P(Update, LayoutDoesNotMatter) {
  UpdatedTensor updated = random_update(rule_, {64, 33}, torch::kFloat32, torch::kFloat32);
  const UpdatedTensor expected = in_float64(updated);
  const auto transposed = [](const Tensor& x) { return x.t().contiguous().t(); };
  updated.gradient = transposed(updated.gradient);
  UpdatedTensor strided = updated;
  strided.parameter = transposed(updated.parameter);
  for (Tensor& state : strided.states) state = transposed(state);
  const Tensor gradient_before = updated.gradient.clone();
  update(rule_, {updated, strided}, factors());
  update(rule_, {expected}, factors());
  expect_same("strided gradient", updated, expected);
  expect_same("all strided", strided, expected);
  EXPECT_TRUE(updated.gradient.equal(gradient_before)) << "gradients are only read";
}

INSTANTIATE_TEST_SUITE_P(Rules, Update, ::testing::Range(0, kUpdateRules));

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no exception";
}

TEST(Update, WhatDoesNotMatchIsRefused) {
  const Tensor p = torch::zeros({3});
  EXPECT_EQ(message_of([&] {
              update(UpdateRule::kLion, {{p, p, {}}}, {});
            }),
            "update: there must be 1 states, got 0");
  EXPECT_EQ(message_of([&] {
              update(UpdateRule::kSgd, {{p, torch::zeros({4}), {}}}, {});
            }),
            "update: gradient must be float32 [3] on cpu, got float32 [4] on cpu");
  EXPECT_EQ(message_of([&] {
              update(UpdateRule::kLion, {{p, p, {torch::zeros({3}, torch::kBFloat16)}}}, {});
            }),
            "update: a state must be float32 [3] on cpu or float32, got bfloat16 [3] on cpu");
}

// --- Adafactor -----------------------------------------------------------------------------------

// Only a kernel of a GPU reads them there.
TEST(Update, FactorsOnADeviceNeedAKernelThere) {
  const UpdatedTensor tensor = {torch::ones({3}), torch::ones({3}), {}};
  const auto refusal = [&](const Tensor& factors) -> std::string {
    try {
      repeatable_update(UpdateRule::kSgd, {tensor}, factors);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_NE(refusal(torch::ones({kRuleFactors})).find("tensors that a kernel there updates"),
            std::string::npos);
  EXPECT_NE(refusal(torch::ones({3})).find("factors must be float32 [16]"), std::string::npos);
}

// transformers.optimization.Adafactor at its first step, where the means are the squares
// themselves.
Tensor first_adafactor_step(const Tensor& p, const Tensor& g, double rate) {
  const Tensor squares = g.square() + 1e-30;
  Tensor direction = g * squares.rsqrt();
  if (g.dim() >= 2) {
    const Tensor rows = squares.mean(-1, true), columns = squares.mean(-2, true);
    direction = g * (rows / rows.mean(-2, true)).rsqrt() * columns.rsqrt();
  }
  direction = direction / direction.square().mean().sqrt().clamp_min(1.0);
  return p - rate * p.square().mean().sqrt().clamp_min(1e-3) * direction;
}

// More elements than stock operators take at a time: bands of four rows and two, parts of a vector,
// and matrices that are bands of their own.
TEST(Adafactor, BandsMatchTheWholeTensor) {
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{1, 6, 1 << 22}, {(1 << 24) + 5}, {3, 40, 7}}) {
    const Tensor parameter = random_tensor(shape, torch::kFloat32, 1);
    const Tensor gradient = random_tensor(shape, torch::kFloat32, 2);
    const Tensor expected = first_adafactor_step(parameter, gradient, 0.5);
    FactoredSquares squares = make_factored_squares(parameter);
    adafactor_step(parameter, gradient, squares,
                   {.learning_rate = 0.5, .beta2 = 0, .least_parameter_rms = 1e-3});
    expect_close("parameter", parameter, expected.to(torch::kFloat64));
  }
}

// A parameter that is not contiguous takes the path of stock operators.
TEST(Adafactor, MatrixLoopsMatchStockOperators) {
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16, torch::kFloat16}) {
    for (const std::vector<int64_t>& shape :
         {std::vector<int64_t>{1, 1}, {3, 5}, {1, 40}, {40, 1}, {70, 33}, {300, 130}}) {
      const Tensor parameter = random_tensor(shape, dtype, 1);
      const Tensor strided = parameter.t().contiguous().t();
      FactoredSquares squares = make_factored_squares(parameter);
      FactoredSquares other = make_factored_squares(parameter);
      AdafactorStep step{.learning_rate = 0.02, .weight_decay = 0.1, .gradient_scale = 0.5};
      for (int t = 0; t < 3; ++t) {
        const Tensor gradient = random_tensor(shape, dtype, 2 + t);
        step.beta2 = 0.4 * t;
        step.least_parameter_rms = t == 2 ? 1e-3 : -1;
        adafactor_step(parameter, gradient, squares, step);
        adafactor_step(strided, gradient, other, step);
      }
      // Three roundings of the parameter.
      expect_close("parameter", parameter, strided.to(torch::kFloat64), 3);
      expect_close("rows", squares.rows, other.rows.to(torch::kFloat64));
      expect_close("columns", squares.columns, other.columns.to(torch::kFloat64));
    }
  }
}

TEST(Adafactor, DoesNotDependOnTheNumberOfThreads) {
  const Tensor gradient = random_tensor({301, 77}, torch::kFloat32, 2);
  const auto stepped = [&](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const Tensor parameter = random_tensor({301, 77}, torch::kFloat32, 1);
    FactoredSquares squares = make_factored_squares(parameter);
    adafactor_step(parameter, gradient, squares,
                   {.learning_rate = 0.1, .least_parameter_rms = 1e-3});
    at::set_num_threads(before);
    return parameter;
  };
  EXPECT_TRUE(stepped(1).equal(stepped(3)));
}

TEST(Adafactor, KeepsAVectorWhole) {
  const FactoredSquares matrix = make_factored_squares(torch::zeros({6, 4}));
  EXPECT_EQ(matrix.rows.sizes(), (std::vector<int64_t>{6}));
  EXPECT_EQ(matrix.columns.sizes(), (std::vector<int64_t>{4}));
  EXPECT_FALSE(matrix.whole.defined());
  const FactoredSquares vector = make_factored_squares(torch::zeros({6}, torch::kBFloat16));
  EXPECT_EQ(vector.whole.sizes(), (std::vector<int64_t>{6}));
  EXPECT_EQ(vector.whole.scalar_type(), torch::kFloat32);
  const FactoredSquares experts = make_factored_squares(torch::zeros({2, 6, 4}));
  EXPECT_EQ(experts.rows.sizes(), (std::vector<int64_t>{2, 6}));
  EXPECT_EQ(experts.columns.sizes(), (std::vector<int64_t>{2, 4}));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
