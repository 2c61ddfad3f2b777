#include "sftbench/ops/rms_norm.h"

#include <cmath>

#include "ops/op_test_support.h"
#include "sftbench/ops/plain.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

// LlamaRMSNorm.forward of Hugging Face.
Tensor reference(const Tensor& x, const Tensor& weight, double epsilon) {
  const Tensor variance = x.pow(2).mean(-1, /*keepdim=*/true);
  return weight * (x * torch::rsqrt(variance + epsilon));
}

struct Case {
  std::vector<int64_t> sizes;
};

const std::vector<Case> kCases = {{{1, 2}},       {{1, 64}},    {{3, 576}}, {{2, 5, 17}},
                                  {{4, 33, 128}}, {{257, 100}}, {{7}}};

TEST(RmsNorm, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      expect_op_matches(
          "rms_norm", [](const auto& in) { return rms_norm(in[0], in[1], 1e-5); },
          [](const auto& in) { return reference(in[0], in[1], 1e-5); },
          {random_tensor(c.sizes, dtype, 1), random_tensor({c.sizes.back()}, dtype, 2)});
    }
  }
}

// Gemma's: rounded once, so that nothing is rounded between the normalized value and the product.
TEST(RmsNorm, MatchesFloat64UnderAWiderWeight) {
  for (const auto dtype : {torch::kBFloat16, torch::kFloat16}) {
    const Tensor x = random_tensor({9, 576}, dtype, 1);
    const Tensor weight = random_tensor({576}, torch::kFloat32, 2);
    const Tensor wide_x = leaf(x.to(torch::kFloat64)),
                 wide_weight = leaf(weight.to(torch::kFloat64));
    const Tensor upstream = random_tensor({9, 576}, dtype, 3);
    const Tensor expected = reference(wide_x, wide_weight, 1e-5);
    expected.backward(upstream.to(torch::kFloat64));
    for (const bool plainly : {false, true}) {
      const Tensor own_x = leaf(x), own_weight = leaf(weight);
      const Tensor y =
          plainly ? plain::rms_norm(own_x, own_weight, 1e-5) : rms_norm(own_x, own_weight, 1e-5);
      // A value near the middle of two may be rounded to either.
      EXPECT_LE(y.ne(expected.detach().to(dtype)).sum().item<int64_t>(), 2) << plainly;
      y.backward(upstream);
      expect_close("x", own_x.grad(), wide_x.grad());
      expect_close("weight", own_weight.grad(), wide_weight.grad());
      const auto [sum, normed] = add_rms_norm(x, x, 0.5, weight, 1e-5);
      EXPECT_TRUE(sum.equal(x + 0.5 * x));
      EXPECT_TRUE(normed.equal(rms_norm(sum, weight, 1e-5)));
    }
  }
}

TEST(AddRmsNorm, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      for (const double scale : {1.0, 0.22}) {
        for (const bool uses_sum : {false, true}) {
          const auto used = [&](const Tensor& sum, const Tensor& normed) {
            return uses_sum ? at::cat({sum, normed}, -1) : normed;
          };
          expect_op_matches(
              "add_rms_norm",
              [&](const auto& in) {
                const auto [sum, normed] = add_rms_norm(in[0], in[1], scale, in[2], 1e-5);
                return used(sum, normed);
              },
              [&](const auto& in) {
                const Tensor sum = in[0] + scale * in[1];
                return used(sum, reference(sum, in[2], 1e-5));
              },
              {random_tensor(c.sizes, dtype, 1), random_tensor(c.sizes, dtype, 2),
               random_tensor({c.sizes.back()}, dtype, 3)},
              /*slack=*/1.5);  // the sum is rounded, too
        }
      }
    }
  }
}

TEST(AddRmsNorm, ANormThatNobodyUsesAddsNothing) {
  const Tensor x = leaf(random_tensor({9, 32}, torch::kFloat32, 1)),
               addend = leaf(random_tensor({9, 32}, torch::kFloat32, 2)),
               weight = leaf(random_tensor({32}, torch::kFloat32, 3));
  const Tensor upstream = random_tensor({9, 32}, torch::kFloat32, 4);
  add_rms_norm(x, addend, 0.5, weight, 1e-5).sum.backward(upstream);
  EXPECT_TRUE(x.grad().equal(upstream));
  EXPECT_TRUE(addend.grad().equal(upstream * 0.5));
  EXPECT_FALSE(weight.grad().defined());
}

TEST(AddRmsNorm, OfOneTensorGivesItOn) {
  for (const auto dtype : kDtypes) {
    expect_op_matches(
        "add_rms_norm alone",
        [](const auto& in) {
          const auto [sum, normed] = add_rms_norm(in[0], {}, 1, in[1], 1e-5);
          return sum * 3 + normed;
        },
        [](const auto& in) { return in[0] * 3 + reference(in[0], in[1], 1e-5); },
        {random_tensor({2, 5, 40}, dtype, 1), random_tensor({40}, dtype, 2)});
    const torch::NoGradGuard no_grad;
    const Tensor x = random_tensor({3, 40}, dtype, 1);
    EXPECT_TRUE(add_rms_norm(x, {}, 1, random_tensor({40}, dtype, 2), 1e-5).sum.is_same(x));
  }
}

TEST(AddRmsNorm, RefusesAnAddendOfAnotherShapeOrDtype) {
  const Tensor x = random_tensor({3, 8}, torch::kFloat32, 1);
  const Tensor weight = random_tensor({8}, torch::kFloat32, 2);
  EXPECT_THROW(add_rms_norm(x, random_tensor({8}, torch::kFloat32, 3), 1, weight, 1e-5),
               std::invalid_argument);
  EXPECT_THROW(add_rms_norm(x, random_tensor({3, 8}, torch::kBFloat16, 3), 1, weight, 1e-5),
               std::invalid_argument);
}

TEST(RmsNorm, MatchesForNonContiguousInput) {
  for (const auto dtype : kDtypes) {
    expect_op_matches(
        "rms_norm transposed",
        [](const auto& in) { return rms_norm(in[0].transpose(0, 1), in[1], 1e-6); },
        [](const auto& in) { return reference(in[0].transpose(0, 1), in[1], 1e-6); },
        {random_tensor({5, 3, 40}, dtype, 1), random_tensor({40}, dtype, 2)});
  }
}

TEST(RmsNorm, RoundsTheNormalizedValueBeforeTheWeightAsHuggingFaceDoes) {
  const Tensor x = random_tensor({64, 576}, torch::kBFloat16, 3);
  const Tensor weight = random_tensor({576}, torch::kBFloat16, 4);
  const Tensor wide = x.to(torch::kFloat32);
  const Tensor normalized = wide * torch::rsqrt(wide.pow(2).mean(-1, true) + 1e-5);
  const Tensor expected = weight * normalized.to(torch::kBFloat16);
  // The statistics are summed in another order, so a value in a few thousand falls on the other
  // side of a tie.
  const double equal =
      (rms_norm(x, weight, 1e-5) == expected).to(torch::kFloat64).mean().item<double>();
  EXPECT_GT(equal, 0.999);
}

TEST(RmsNorm, AddsToTheWeightGradientThatIsThere) {
  const Tensor x = leaf(random_tensor({9, 32}, torch::kFloat32, 1));
  const Tensor weight = leaf(random_tensor({32}, torch::kFloat32, 2));
  rms_norm(x, weight, 1e-5).sum().backward();
  const Tensor once = weight.grad().clone();
  void* const storage = weight.grad().data_ptr();
  rms_norm(x, weight, 1e-5).sum().backward();
  expect_close("twice", weight.grad(), 2 * once);
  EXPECT_EQ(weight.grad().data_ptr(), storage);
}

TEST(RmsNorm, FrozenWeightGetsNoGradient) {
  const Tensor x = leaf(random_tensor({9, 32}, torch::kFloat32, 1));
  const Tensor weight = random_tensor({32}, torch::kFloat32, 2);
  rms_norm(x, weight, 1e-5).sum().backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
}

TEST(RmsNorm, NanAndInfinityStayInTheirRow) {
  for (const auto dtype : kDtypes) {
    Tensor x = random_tensor({3, 65}, dtype, 1);
    x[0][64] = std::nan("");
    x[1][0] = INFINITY;
    const Tensor y = rms_norm(x, torch::ones({65}, x.options()), 1e-5);
    EXPECT_TRUE(y[0].isnan().all().item<bool>());
    EXPECT_TRUE(y[1][0].isnan().item<bool>());
    EXPECT_TRUE(y[2].isfinite().all().item<bool>());
  }
}

TEST(RmsNorm, WrongWeightIsRefused) {
  const Tensor x = torch::zeros({2, 8});
  try {
    rms_norm(x, torch::zeros({7}, torch::kBFloat16), 1e-5);
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "rms_norm: weight must be float32 [8] on cpu, got bfloat16 [7] on cpu");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
