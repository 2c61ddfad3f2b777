#include "sftbench/ops/linear.h"

#include "ops/op_test_support.h"
#include "sftbench/ops/recomputation.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

struct Case {
  std::vector<int64_t> x_sizes;
  int64_t out;
};

const std::vector<Case> kCases = {
    {{1, 1}, 1}, {{3, 64}, 32}, {{2, 5, 17}, 9}, {{1, 33, 128}, 130}, {{24}, 7}};

TEST(Linear, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      expect_op_matches(
          "linear", [](const auto& in) { return ops::linear(in[0], in[1], in[2]); },
          [](const auto& in) { return torch::linear(in[0], in[1], in[2]); },
          {random_tensor(c.x_sizes, dtype, 1), random_tensor({c.out, c.x_sizes.back()}, dtype, 2),
           random_tensor({c.out}, dtype, 3)});
    }
  }
}

TEST(TransposedLinear, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      expect_op_matches(
          "transposed linear",
          [](const auto& in) { return transposed_linear(in[0], in[1], in[2]); },
          [](const auto& in) { return torch::linear(in[0], in[1].t(), in[2]); },
          {random_tensor(c.x_sizes, dtype, 1), random_tensor({c.x_sizes.back(), c.out}, dtype, 2),
           random_tensor({c.out}, dtype, 3)});
    }
  }
}

TEST(TransposedLinear, AddsToTheGradientsThatAreThere) {
  const Tensor x = random_tensor({65, 40}, torch::kFloat32, 1);
  const Tensor weight = leaf(random_tensor({40, 24}, torch::kFloat32, 2)),
               bias = leaf(random_tensor({24}, torch::kFloat32, 3));
  const Tensor upstream = random_tensor({65, 24}, torch::kFloat32, 4);
  const Tensor before = random_tensor({40, 24}, torch::kFloat32, 5);
  weight.mutable_grad() = before.clone();
  void* const storage = weight.grad().data_ptr();
  transposed_linear(x, weight, bias).backward(upstream);
  const auto wide = [](const Tensor& t) { return t.to(torch::kFloat64); };
  expect_close("weight", weight.grad(), wide(before) + wide(x).t().mm(wide(upstream)));
  EXPECT_EQ(weight.grad().data_ptr(), storage);
}

TEST(Linear, MatchesWithoutBiasForNonContiguousInput) {
  for (const auto dtype : kDtypes) {
    expect_op_matches(
        "linear transposed",
        [](const auto& in) { return ops::linear(in[0].transpose(0, 1), in[1]); },
        [](const auto& in) { return torch::matmul(in[0].transpose(0, 1), in[1].t()); },
        {random_tensor({5, 3, 40}, dtype, 1), random_tensor({12, 40}, dtype, 2)});
  }
}

// One node for all: x's gradient is the sum over them. Trained and frozen, with biases and without.
TEST(Linears, OfOneInputMatchFloat64) {
  for (const auto dtype : kDtypes) {
    const Tensor frozen = random_tensor({8, 40}, dtype, 6);
    expect_op_matches(
        "linears",
        [&](const auto& in) {
          return at::cat(
              linears(in[0], {{in[1], in[2]}, {frozen, {}}, {in[3], in[4]}, {in[5], {}}}), -1);
        },
        [&](const auto& in) {
          return at::cat({torch::linear(in[0], in[1], in[2]),
                          torch::linear(in[0], frozen.to(in[0].scalar_type())),
                          torch::linear(in[0], in[3], in[4]), torch::linear(in[0], in[5])},
                         -1);
        },
        {random_tensor({3, 5, 40}, dtype, 1), random_tensor({24, 40}, dtype, 2),
         random_tensor({24}, dtype, 3), random_tensor({7, 40}, dtype, 4),
         random_tensor({7}, dtype, 5), random_tensor({9, 40}, dtype, 7)});
  }
}

TEST(Linears, AnOutputThatNobodyUsesAddsNothing) {
  const Tensor x = leaf(random_tensor({5, 40}, torch::kFloat32, 1));
  const Tensor used = leaf(random_tensor({7, 40}, torch::kFloat32, 2)),
               unused = leaf(random_tensor({9, 40}, torch::kFloat32, 3)),
               bias = leaf(random_tensor({9}, torch::kFloat32, 4));
  linears(x, {{unused, bias}, {used, {}}})[1].sum().backward();
  EXPECT_LE(relative_error(x.grad(), used.detach().to(torch::kFloat64).sum(0).expand({5, 40})),
            tolerance(torch::kFloat32));
  EXPECT_TRUE(used.grad().defined());
  EXPECT_FALSE(unused.grad().defined());
  EXPECT_FALSE(bias.grad().defined());
}

TEST(Linears, FrozenOnesKeepNoInput) {
  const Tensor weight = random_tensor({24, 40}, torch::kFloat32, 2);
  const Tensor leaf_x = leaf(random_tensor({5, 40}, torch::kFloat32, 1));
  Tensor x = leaf_x * 1;
  const std::vector<Tensor> outputs = linears(x, {{weight, {}}, {weight, {}}});
  EXPECT_EQ(x.use_count(), 1u);
  (outputs[0] + outputs[1]).sum().backward();
  EXPECT_LE(relative_error(leaf_x.grad(), 2 * weight.to(torch::kFloat64).sum(0).expand({5, 40})),
            tolerance(torch::kFloat32));
}

TEST(Linear, AddsToTheGradientsThatAreThere) {
  for (const auto dtype : kDtypes) {
    const Tensor x = random_tensor({65, 40}, dtype, 1);
    const Tensor weight = leaf(random_tensor({24, 40}, dtype, 2)),
                 bias = leaf(random_tensor({24}, dtype, 3));
    const Tensor upstream = random_tensor({65, 24}, dtype, 4);
    const Tensor before = random_tensor({24, 40}, dtype, 5),
                 bias_before = random_tensor({24}, dtype, 6);
    weight.mutable_grad() = before.clone();
    bias.mutable_grad() = bias_before.clone();
    void* const storage = weight.grad().data_ptr();
    ops::linear(x, weight, bias).backward(upstream);
    const auto wide = [](const Tensor& t) { return t.to(torch::kFloat64); };
    expect_close("weight", weight.grad(), wide(before) + wide(upstream).t().mm(wide(x)));
    expect_close("bias", bias.grad(), wide(bias_before) + wide(upstream).sum(0));
    EXPECT_EQ(weight.grad().data_ptr(), storage);
  }
}

TEST(Linear, GradientOfACastWeightReachesTheParameter) {
  const Tensor master = leaf(random_tensor({24, 40}, torch::kFloat32, 2));
  const Tensor x = random_tensor({5, 40}, torch::kBFloat16, 1);
  for (int i = 0; i < 2; ++i) ops::linear(x, master.to(torch::kBFloat16)).sum().backward();
  ASSERT_TRUE(master.grad().defined());
  const Tensor expected = 2 * x.to(torch::kFloat64).sum(0).expand({24, 40});
  EXPECT_LE(relative_error(master.grad(), expected), tolerance(torch::kBFloat16));
}

TEST(Linear, FrozenWeightGetsNoGradientAndKeepsNoInput) {
  const Tensor weight = random_tensor({24, 40}, torch::kFloat32, 2);
  const Tensor leaf_x = leaf(random_tensor({5, 40}, torch::kFloat32, 1));
  Tensor x = leaf_x * 1;
  const Tensor y = ops::linear(x, weight);
  EXPECT_EQ(x.use_count(), 1u);
  y.sum().backward();
  EXPECT_TRUE(leaf_x.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
}

TEST(Linear, TheLastProductOfARecomputationHasItsGradientsAndZeros) {
  const auto gradients = [](bool recomputes) {
    const Tensor x = leaf(random_tensor({5, 40}, torch::kFloat32, 1));
    const Tensor weight = leaf(random_tensor({24, 40}, torch::kFloat32, 2));
    Tensor y;
    if (recomputes) {
      const Recomputation recomputation;
      EXPECT_GT(ops::linear(x, weight).abs().sum().item<double>(), 0);  // not the last
      const LastProduct last;
      y = ops::linear(x, weight);
      EXPECT_EQ(y.abs().sum().item<double>(), 0);
    } else {
      y = ops::linear(x, weight);
    }
    y.backward(random_tensor({5, 24}, torch::kFloat32, 3));
    return std::vector<Tensor>{x.grad(), weight.grad()};
  };
  const auto expected = gradients(false), found = gradients(true);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(found[i].equal(expected[i])) << i;
}

TEST(Linear, KeepsNothingWithoutGradientMode) {
  const torch::NoGradGuard no_grad;
  const Tensor weight = leaf(random_tensor({24, 40}, torch::kFloat32, 2));
  EXPECT_FALSE(ops::linear(random_tensor({5, 40}, torch::kFloat32, 1), weight).requires_grad());
}

TEST(Linear, WrongShapesAreRefused) {
  try {
    ops::linear(torch::zeros({2, 8}), torch::zeros({3, 7}));
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "linear: weight must be float32 [*, 8] on cpu, got float32 [3, 7] on cpu");
  }
  try {
    ops::linear(torch::zeros({2, 8}), torch::zeros({3, 8}), torch::zeros({4}));
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "linear: bias must be float32 [3] on cpu, got float32 [4] on cpu");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
