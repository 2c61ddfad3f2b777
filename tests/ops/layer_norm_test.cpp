#include "sftbench/ops/layer_norm.h"

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

Tensor reference(const Tensor& x, const Tensor& weight, const Tensor& bias, double epsilon) {
  const Tensor centered = x - x.mean(-1, /*keepdim=*/true);
  const Tensor variance = centered.pow(2).mean(-1, /*keepdim=*/true);
  return centered / torch::sqrt(variance + epsilon) * weight + bias;
}

TEST(LayerNorm, MatchesFloat64ForwardAndBackward) {
  const std::vector<std::vector<int64_t>> shapes = {{1, 9},     {3, 576},     {2, 5, 17},
                                                    {257, 100}, {4, 33, 128}, {7}};
  for (const auto dtype : kDtypes) {
    for (const std::vector<int64_t>& sizes : shapes) {
      expect_op_matches(
          "layer_norm", [](const auto& in) { return layer_norm(in[0], in[1], in[2], 1e-5); },
          [](const auto& in) { return reference(in[0], in[1], in[2], 1e-5); },
          {random_tensor(sizes, dtype, 1) * 2 + 1, random_tensor({sizes.back()}, dtype, 2),
           random_tensor({sizes.back()}, dtype, 3)});
    }
  }
}

TEST(LayerNorm, MatchesForNonContiguousInput) {
  expect_op_matches(
      "layer_norm transposed",
      [](const auto& in) { return layer_norm(in[0].transpose(0, 1), in[1], in[2], 1e-6); },
      [](const auto& in) { return reference(in[0].transpose(0, 1), in[1], in[2], 1e-6); },
      {random_tensor({5, 3, 40}, torch::kFloat32, 1), random_tensor({40}, torch::kFloat32, 2),
       random_tensor({40}, torch::kFloat32, 3)});
}

TEST(LayerNorm, RoundsOnce) {
  const Tensor x = random_tensor({64, 576}, torch::kBFloat16, 3);
  const Tensor weight = random_tensor({576}, torch::kBFloat16, 4);
  const Tensor bias = random_tensor({576}, torch::kBFloat16, 5);
  const Tensor exact =
      reference(x.to(torch::kFloat64), weight.to(torch::kFloat64), bias.to(torch::kFloat64), 1e-5);
  const auto error = [&exact](const Tensor& y) {
    return ((y.to(torch::kFloat64) - exact).norm() / exact.norm()).item<double>();
  };
  EXPECT_LE(error(layer_norm(x, weight, bias, 1e-5)), 1.01 * error(exact.to(torch::kBFloat16)));
}

TEST(LayerNorm, OnlyWantedGradients) {
  const Tensor x = leaf(random_tensor({3, 8}, torch::kFloat32, 1));
  const Tensor weight = random_tensor({8}, torch::kFloat32, 2);
  const Tensor bias = random_tensor({8}, torch::kFloat32, 3);
  layer_norm(x, weight, bias, 1e-5).sum().backward();
  EXPECT_TRUE(x.grad().defined());
  EXPECT_FALSE(weight.grad().defined());
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
