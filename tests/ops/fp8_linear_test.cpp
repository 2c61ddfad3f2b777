#include "sftbench/ops/fp8_linear.h"

#include <gmock/gmock.h>

#include "ops/op_test_support.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

using ::testing::HasSubstr;

TEST(Fp8Linear, TheObstacleOfACpuSaysWhatWouldWork) {
  const std::string obstacle = fp8_obstacle(torch::kCPU);
#if SFTBENCH_TORCH_2
  EXPECT_THAT(obstacle, ::testing::StartsWith("cpu is none; "));
#else
  EXPECT_THAT(obstacle, ::testing::StartsWith("this build's libtorch 1.13"));
  EXPECT_THROW(fp8_linear(torch::zeros({16, 16}), torch::zeros({16, 16})), std::logic_error);
#endif
  EXPECT_THAT(obstacle, HasSubstr("a GPU of compute capability 8.9 or newer (L40S, H100"));
}

#if SFTBENCH_TORCH_2

// An operand rounded to float8 with a scale of its own: what the product is exact for.
Tensor rounded(const Tensor& x, torch::Dtype dtype, double largest) {
  const Tensor scale = x.abs().max() / largest;
  return (x / scale).to(torch::kFloat32).to(dtype).to(torch::kFloat64) * scale;
}

Tensor as_e4m3(const Tensor& x) {
  return rounded(x.detach().to(torch::kFloat64), torch::kFloat8_e4m3fn, 448.0);
}

Tensor as_e5m2(const Tensor& x) {
  return rounded(x.detach().to(torch::kFloat64), torch::kFloat8_e5m2, 57344.0);
}

// 37 rows: no multiple of what the hardware sums at once.
struct Inputs {
  Tensor x = leaf(random_tensor({37, 64}, torch::kBFloat16, 1));
  Tensor weight = leaf(random_tensor({48, 64}, torch::kFloat32, 2) / 8);
  Tensor bias = leaf(random_tensor({48}, torch::kFloat32, 3));
  Tensor upstream = random_tensor({37, 48}, torch::kBFloat16, 4);
};

// Rounding to float8 is part of the reference, so what is left is the result's own rounding and, on
// GPUs, the 14 bits that their sums have.
constexpr double kGradientTolerance = 6e-3;

TEST(Fp8Linear, MatchesFloat64OfTheRoundedOperands) {
  Inputs in;
  const Tensor y = fp8_linear(in.x, in.weight, in.bias);
  y.backward(in.upstream);
  const Tensor dy = as_e5m2(in.upstream);
  expect_close("y", y,
               torch::matmul(as_e4m3(in.x), as_e4m3(in.weight).t()) + in.bias.to(torch::kFloat64));
  expect_close("x gradient", in.x.grad(), torch::matmul(dy, as_e4m3(in.weight)));
  EXPECT_LE(relative_error(in.weight.grad(), torch::matmul(dy.t(), as_e4m3(in.x))),
            kGradientTolerance);
  EXPECT_EQ(in.weight.grad().scalar_type(), torch::kFloat32);
  EXPECT_LE(relative_error(in.bias.grad(), in.upstream.to(torch::kFloat64).sum(0)),
            kGradientTolerance);
}

TEST(Fp8Linear, AddsToTheGradientThatIsThere) {
  Inputs in;
  fp8_linear(in.x, in.weight).backward(in.upstream);
  const Tensor once = in.weight.grad().clone();
  fp8_linear(in.x, in.weight).backward(in.upstream);
  EXPECT_TRUE(in.weight.grad().equal(2 * once));
}

TEST(Fp8Linear, NanReachesTheResultAndZerosStayZero) {
  Inputs in;
  const torch::NoGradGuard no_grad;
  in.x[0][0] = std::nan("");
  EXPECT_FALSE(fp8_linear(in.x, in.weight).isfinite().all().item<bool>());
  EXPECT_TRUE(fp8_linear(torch::zeros_like(in.x), in.weight).eq(0).all().item<bool>());
}

TEST(Fp8Linear, OddWidthsAreRefused) {
  EXPECT_THROW(fp8_linear(torch::zeros({4, 24}, torch::kBFloat16), torch::zeros({16, 24})),
               std::invalid_argument);
}

#endif

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
