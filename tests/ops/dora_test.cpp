#include "sftbench/ops/dora.h"

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

// Of the paper, and of peft's DoraLinearLayer: rest + m / |W| (t - b), where rest is b without
// another.
Tensor by_hand(const Tensor& t, const Tensor& magnitude, const Tensor& norms, const Tensor& bias,
               const Tensor& rest) {
  const Tensor own = bias.defined() ? t - bias : t;
  const Tensor scaled = magnitude / norms * own;
  if (rest.defined()) return rest + scaled;
  return bias.defined() ? scaled + bias : scaled;
}

Tensor wide(const Tensor& tensor) {
  return tensor.defined() ? tensor.to(torch::kFloat64) : tensor;
}

TEST(WithMagnitude, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    const Tensor norms = random_tensor({9}, dtype, 1).abs() + 0.5;
    const Tensor bias = random_tensor({9}, dtype, 2);
    for (const bool has_bias : {false, true}) {
      for (const bool has_rest : {false, true}) {
        std::vector<Tensor> in = {random_tensor({2, 5, 9}, dtype, 3), random_tensor({9}, dtype, 4)};
        if (has_rest) in.push_back(random_tensor({2, 5, 9}, dtype, 5));
        const Tensor b = has_bias ? bias : Tensor();
        expect_op_matches(
            "with_magnitude",
            [&](const auto& tensors) {
              return with_magnitude(tensors[0], tensors[1], norms, b,
                                    has_rest ? tensors[2] : Tensor());
            },
            [&](const auto& tensors) {
              return by_hand(tensors[0], tensors[1], wide(norms), wide(b),
                             has_rest ? tensors[2] : Tensor());
            },
            in, 4.0);
      }
    }
  }
}

// More rows than a part of the work has.
TEST(WithMagnitude, AddsUpOverManyRows) {
  const Tensor t = random_tensor({70000, 64}, torch::kFloat32, 1);
  const Tensor norms = random_tensor({64}, torch::kFloat32, 2).abs() + 0.5;
  const Tensor magnitude = leaf(random_tensor({64}, torch::kFloat32, 3));
  const Tensor dy = random_tensor({70000, 64}, torch::kFloat32, 4);
  magnitude.mutable_grad() = torch::ones_like(magnitude);
  with_magnitude(t, magnitude, norms).backward(dy);
  const Tensor expected = 1 + (wide(dy) * wide(t)).sum(0) / wide(norms);
  EXPECT_LE(relative_error(magnitude.grad(), expected), 1e-5);
}

// The factor is no number of the outputs' dtype.
TEST(WithMagnitude, OfHalfPrecisionIsRoundedOnce) {
  for (const auto dtype : {torch::kBFloat16, torch::kFloat16}) {
    const Tensor t = random_tensor({4096, 8}, dtype, 1).abs();
    const Tensor norms = random_tensor({8}, torch::kFloat32, 2).abs() + 0.5;
    const Tensor magnitude = leaf(norms * 1.006);
    const Tensor y = with_magnitude(leaf(t), magnitude, norms);
    ASSERT_EQ(y.scalar_type(), dtype);
    const Tensor scale = magnitude.detach() / norms;
    EXPECT_TRUE(torch::equal(y.detach(), (t.to(torch::kFloat32) * scale).to(dtype)));
    EXPECT_FALSE(torch::equal(y.detach(), t * scale.to(dtype)));
    y.sum().backward();
    ASSERT_EQ(magnitude.grad().scalar_type(), torch::kFloat32);
    EXPECT_LE(relative_error(magnitude.grad(), wide(t).sum(0) / wide(norms)), 1e-5);
  }
}

TEST(RowNorms, AreThoseOfTheSumWhateverTheWeightIsKeptIn) {
  const int64_t out = 70000, in = 64;  // more rows than a part of the work has
  const Tensor weight = random_tensor({out, in}, torch::kBFloat16, 1);
  const LowRankFactors factors = {leaf(random_tensor({2, in}, torch::kFloat32, 2)),
                                  leaf(random_tensor({out, 2}, torch::kFloat32, 3))};
  const Tensor found = row_norms(
      [&](int64_t first, int64_t count) {
        EXPECT_EQ(first % 64, 0);
        EXPECT_TRUE(count % 64 == 0 || first + count == out);
        return weight.narrow(0, first, count);
      },
      factors, 0.7);
  EXPECT_FALSE(found.requires_grad());
  ASSERT_EQ(found.scalar_type(), torch::kFloat32);
  const Tensor sum = wide(weight) + 0.7 * wide(factors.b.detach()).mm(wide(factors.a.detach()));
  EXPECT_LE(relative_error(found, sum.square().sum(1).sqrt()), 1e-6);
}

TEST(WithMagnitude, SaysWhatDoesNotFit) {
  const Tensor t = random_tensor({3, 8}, torch::kFloat32, 1);
  const Tensor seven = random_tensor({7}, torch::kFloat32, 2), eight = t[0].abs();
  EXPECT_NE(refusal_of([&] { with_magnitude(t, seven, seven); }).find("norms"), std::string::npos);
  EXPECT_NE(refusal_of([&] { with_magnitude(t, eight, eight, {}, t[0]); }).find("rest"),
            std::string::npos);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
