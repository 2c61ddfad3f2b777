#include "sftbench/ops/linear_cross_entropy.h"

#include <algorithm>
#include <cmath>

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

struct Case {
  int64_t positions, width, vocabulary;
  double logit_scale;
  double ignored;  // fraction of the labels
  double cap = 0;
};

const std::vector<Case> kCases = {{1, 4, 2, 1.0, 0.0},       {5, 16, 33, 1.0, 0.0},
                                  {64, 32, 100, 0.125, 0.5}, {33, 24, 257, 1.0, 0.9},
                                  {70, 64, 1001, 2.0, 0.3},  {3, 8, 300000, 1.0, 0.0}};

Tensor some_labels(const Case& c) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(uint64_t{11});
  const auto int64 = torch::TensorOptions(torch::kInt64);
  const Tensor labels = at::randint(0, c.vocabulary, {c.positions}, generator, int64);
  const Tensor draw = at::rand({c.positions}, generator, torch::TensorOptions(torch::kFloat64));
  return labels.masked_fill(draw < c.ignored, kIgnoredLabel).to(test_device());
}

// The labels 0 to 5.
Tensor first_labels() {
  return torch::arange(6).to(test_device());
}

// ForCausalLMLoss of Hugging Face without the shift: sum of the cross-entropies over
// num_items_in_batch.
Tensor reference(const Tensor& hidden, const Tensor& weight, const Tensor& labels, const Case& c,
                 double denominator) {
  Tensor logits = torch::matmul(hidden, weight.t()) * c.logit_scale;
  if (c.cap > 0) logits = torch::tanh(logits / c.cap) * c.cap;
  return at::cross_entropy_loss(logits, labels, {}, at::Reduction::Sum, kIgnoredLabel) /
         denominator;
}

struct Compared {
  Tensor loss, hidden_gradient, weight_gradient;
};

Compared run(const Case& c, torch::Dtype dtype, double denominator, bool in_float64) {
  const auto draw = [&](std::vector<int64_t> sizes, uint64_t seed) {
    const Tensor values = random_tensor(sizes, dtype, seed) / 2;
    return leaf(in_float64 ? values.to(torch::kFloat64) : values);
  };
  const Tensor hidden = draw({c.positions, c.width}, 1), weight = draw({c.vocabulary, c.width}, 2);
  const Tensor labels = some_labels(c);
  const Tensor loss = in_float64 ? reference(hidden, weight, labels, c, denominator)
                                 : linear_cross_entropy(hidden, weight, labels,
                                                        {c.logit_scale, c.cap}, denominator);
  loss.backward();
  return {loss.detach(), hidden.grad(), weight.grad()};
}

// Half precision rounds capped logits three times, and others once.
TEST(LinearCrossEntropy, CapsMatchFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : {Case{5, 16, 33, 1.0, 0.0, 0.7}, Case{70, 64, 1001, 2.0, 0.3, 3.0}}) {
      const Compared actual = run(c, dtype, 7.0, false), expected = run(c, dtype, 7.0, true);
      EXPECT_LE(relative_error(actual.loss, expected.loss), 3 * tolerance(dtype)) << c.vocabulary;
      expect_close("hidden", actual.hidden_gradient, expected.hidden_gradient, 6.0);
      expect_close("weight", actual.weight_gradient, expected.weight_gradient, 6.0);
    }
  }
}

// Over three chunks of a frozen weight: as one product of wider rows.
TEST(LinearCrossEntropy, AnAddendIsASecondProduct) {
  const Case c = {200, 8, 100000, 0.5, 0.3, 2.0};
  const auto draw = [](std::vector<int64_t> sizes, uint64_t seed) {
    return random_tensor(sizes, torch::kFloat32, seed) / 2;
  };
  const Tensor hidden = leaf(draw({c.positions, c.width}, 1));
  const Tensor weight = draw({c.vocabulary, c.width}, 2);
  const LogitAddend addend = {leaf(draw({c.positions, 3}, 3)), leaf(draw({c.vocabulary, 3}, 4))};
  const Tensor labels = some_labels(c);
  const Tensor loss =
      linear_cross_entropy(hidden, weight, labels, {c.logit_scale, c.cap}, 7.0, addend);
  loss.backward();
  const auto wide = [](const Tensor& a, const Tensor& b) {
    return leaf(torch::cat({a.detach(), b.detach()}, 1).to(torch::kFloat64));
  };
  const Tensor rows = wide(hidden, addend.hidden), matrix = wide(weight, addend.weight);
  const Tensor expected = reference(rows, matrix, labels, c, 7.0);
  expected.backward();
  EXPECT_LE(relative_error(loss, expected), tolerance(torch::kFloat32));
  expect_close("hidden", hidden.grad(), rows.grad().narrow(1, 0, c.width), 3.0);
  expect_close("addend.hidden", addend.hidden.grad(), rows.grad().narrow(1, c.width, 3), 3.0);
  expect_close("addend.weight", addend.weight.grad(), matrix.grad().narrow(1, c.width, 3), 3.0);
  EXPECT_FALSE(weight.grad().defined());
}

TEST(LinearCrossEntropy, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      const Compared actual = run(c, dtype, 7.0, false), expected = run(c, dtype, 7.0, true);
      // The logits themselves are rounded to the dtype, as Hugging Face's are.
      EXPECT_LE(relative_error(actual.loss, expected.loss), tolerance(dtype)) << c.vocabulary;
      // A sum over the vocabulary, whose rounding errors add up like a random walk; in which order
      // is the BLAS library's choice.
      const double walk = std::sqrt(std::max(1.0, static_cast<double>(c.vocabulary) / (1 << 16)));
      expect_close("hidden", actual.hidden_gradient, expected.hidden_gradient, 2.0 * walk);
      expect_close("weight", actual.weight_gradient, expected.weight_gradient, 2.0);
    }
  }
}

TEST(LinearCrossEntropy, ManyChunksLoseNoPrecision) {
  // 300 positions of 262144 logits are 10 chunks in float32 and 5 in bfloat16, 2 with AMX.
  const Case c{300, 16, 262144, 1.0, 0.1};
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    const Compared actual = run(c, dtype, 300.0, false), expected = run(c, dtype, 300.0, true);
    expect_close("weight", actual.weight_gradient, expected.weight_gradient, 1.0);
    expect_close("hidden", actual.hidden_gradient, expected.hidden_gradient, 1.0);
  }
}

TEST(LinearCrossEntropy, AddsToTheGradientThatIsThere) {
  const Case c{40, 24, 65, 1.0, 0.2};
  for (const auto dtype : kDtypes) {
    const Tensor hidden = leaf(random_tensor({c.positions, c.width}, dtype, 1) / 2);
    const Tensor weight = leaf(random_tensor({c.vocabulary, c.width}, dtype, 2) / 2);
    linear_cross_entropy(hidden, weight, some_labels(c), 1.0, 5.0).backward();
    const Tensor once = weight.grad().to(torch::kFloat64, /*non_blocking=*/false, /*copy=*/true);
    void* const storage = weight.grad().data_ptr();
    linear_cross_entropy(hidden, weight, some_labels(c), 1.0, 5.0).backward();
    expect_close("twice", weight.grad(), 2 * once);
    EXPECT_EQ(weight.grad().data_ptr(), storage);
  }
}

TEST(LinearCrossEntropy, AnUpstreamGradientScalesTheFirstGradient) {
  const Tensor hidden = leaf(random_tensor({6, 8}, torch::kFloat64, 1)),
               weight = leaf(random_tensor({9, 8}, torch::kFloat64, 2));
  const Tensor labels = first_labels();
  (linear_cross_entropy(hidden, weight, labels, 1.0, 1.0) * 3.0).backward();
  const Tensor hidden3 = hidden.grad().clone(), weight3 = weight.grad().clone();
  hidden.mutable_grad().reset();
  weight.mutable_grad().reset();
  linear_cross_entropy(hidden, weight, labels, 1.0, 1.0).backward();
  expect_close("hidden", hidden3, 3 * hidden.grad());
  expect_close("weight", weight3, 3 * weight.grad());
}

TEST(LinearCrossEntropy, AnUpstreamGradientAfterAccumulationIsRefused) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "the host would have to wait for the number";
  const Tensor hidden = leaf(random_tensor({6, 8}, torch::kFloat32, 1)),
               weight = leaf(random_tensor({9, 8}, torch::kFloat32, 2));
  linear_cross_entropy(hidden, weight, first_labels(), 1.0, 1.0).backward();
  const Tensor scaled = linear_cross_entropy(hidden, weight, first_labels(), 1.0, 1.0) * 3.0;
  EXPECT_THROW(scaled.backward(), std::logic_error);
}

TEST(LinearCrossEntropy, GradientOfACastWeightReachesTheParameter) {
  const Tensor master = leaf(random_tensor({9, 8}, torch::kFloat32, 2));
  const Tensor hidden = random_tensor({6, 8}, torch::kBFloat16, 1);
  for (int i = 0; i < 2; ++i) {
    linear_cross_entropy(hidden, master.to(torch::kBFloat16), first_labels(), 1.0, 6.0).backward();
  }
  const Tensor wide = leaf(master.to(torch::kBFloat16), torch::kFloat64);
  (2 * reference(hidden.to(torch::kFloat64), wide, first_labels(), {6, 8, 9, 1.0, 0.0}, 6.0))
      .backward();
  EXPECT_LE(relative_error(master.grad(), wide.grad()), 2 * tolerance(torch::kBFloat16));
}

TEST(LinearCrossEntropy, AllLabelsIgnoredGivesZeroLossAndZeroGradients) {
  for (const auto dtype : kDtypes) {
    const Tensor hidden = leaf(random_tensor({6, 8}, dtype, 1)),
                 weight = leaf(random_tensor({9, 8}, dtype, 2));
    const Tensor labels = torch::full_like(first_labels(), kIgnoredLabel);
    const Tensor loss = linear_cross_entropy(hidden, weight, labels, 1.0, 1.0);
    EXPECT_EQ(loss.item<double>(), 0.0);
    loss.backward();
    EXPECT_EQ(hidden.grad().abs().max().item<double>(), 0.0);
    EXPECT_EQ(weight.grad().abs().max().item<double>(), 0.0);
  }
}

TEST(LinearCrossEntropy, IgnoredPositionsDoNotTouchTheResult) {
  Tensor hidden = random_tensor({6, 8}, torch::kFloat32, 1);
  const Tensor weight = random_tensor({9, 8}, torch::kFloat32, 2);
  Tensor labels = first_labels();
  labels[2] = kIgnoredLabel;
  const double before = linear_cross_entropy(hidden, weight, labels, 1.0, 1.0).item<double>();
  hidden[2] = std::nan("");
  EXPECT_EQ(linear_cross_entropy(hidden, weight, labels, 1.0, 1.0).item<double>(), before);
}

TEST(LinearCrossEntropy, NanReachesTheLoss) {
  Tensor hidden = random_tensor({6, 8}, torch::kBFloat16, 1);
  hidden[5][7] = std::nan("");
  const Tensor weight = random_tensor({9, 8}, torch::kBFloat16, 2);
  EXPECT_TRUE(
      std::isnan(linear_cross_entropy(hidden, weight, first_labels(), 1.0, 1.0).item<double>()));
}

TEST(LinearCrossEntropy, WithoutGradientModeTheLossIsTheSame) {
  const Case c{40, 24, 65, 0.5, 0.2};
  const Tensor hidden = leaf(random_tensor({40, 24}, torch::kBFloat16, 1)),
               weight = leaf(random_tensor({65, 24}, torch::kBFloat16, 2));
  const double with_gradients =
      linear_cross_entropy(hidden, weight, some_labels(c), 0.5, 9.0).item<double>();
  const torch::NoGradGuard no_grad;
  EXPECT_EQ(linear_cross_entropy(hidden, weight, some_labels(c), 0.5, 9.0).item<double>(),
            with_gradients);
}

TEST(LinearCrossEntropy, WrongInputsAreRefused) {
  const Tensor hidden = torch::zeros({6, 8}), weight = torch::zeros({9, 8});
  try {
    linear_cross_entropy(hidden, weight, torch::zeros({5}, torch::kInt64), 1.0, 1.0);
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "linear_cross_entropy: labels must be int64 [6] on cpu, got int64 [5] on cpu");
  }
  for (const int64_t label : {9, -1}) {
    try {
      linear_cross_entropy(hidden, weight, torch::full({6}, label, torch::kInt64), 1.0, 1.0);
      FAIL() << "no exception";
    } catch (const std::invalid_argument& error) {
      EXPECT_EQ(error.what(), "linear_cross_entropy: labels must be -100 or in [0, 9), got " +
                                  std::to_string(label));
    }
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
