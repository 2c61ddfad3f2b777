#include "kernels/kernel_test_support.h"
#include "ops/rms_norm_impl.h"

namespace sftbench::ops {
namespace {

constexpr double kEpsilon = 1e-5;

void expect_norm_matches(const Tensor& x, const Tensor& weight, const Tensor& dy) {
  const auto dtype = x.scalar_type();
  const auto wide = [](const Tensor& t) { return t.to(torch::kFloat64).set_requires_grad(true); };
  const Tensor wide_x = wide(x), wide_weight = wide(weight);
  const Tensor rstd_expected = (wide_x.square().mean(-1) + kEpsilon).rsqrt();
  (wide_x * rstd_expected.unsqueeze(-1) * wide_weight).backward(dy.to(torch::kFloat64));
  const Tensor expected = (wide_x * rstd_expected.unsqueeze(-1) * wide_weight).detach();
  for_each_order([&] {
    Tensor y = guarded_nan(x.sizes(), dtype), rstd = guarded_nan({x.size(0)}, torch::kFloat32);
    kRmsNormCuda.forward(x, weight, kEpsilon, y, rstd);
    expect_near(rstd, rstd_expected.detach(), 1e-6);
    expect_near(y, expected, kernel_tolerance(dtype, 2));  // two roundings
    const RmsNormGradients all = kRmsNormCuda.backward(dy, x, weight, rstd, true);
    expect_near(all.x, wide_x.grad(), kernel_tolerance(dtype), 0.1);
    expect_near(all.weight, wide_weight.grad(), 1e-5, 0.1);
    const RmsNormGradients without = kRmsNormCuda.backward(dy, x, weight, rstd, false);
    expect_near(without.x, wide_x.grad(), kernel_tolerance(dtype), 0.1);
    EXPECT_FALSE(without.weight.defined());
  });
}

// Widths of one warp, four and eight of them; with packs and without; more rows than blocks.
TEST(RmsNormKernel, MatchesFloat64) {
  for (const auto dtype : kKernelDtypes) {
    for (const int64_t width : {1, 8, 33, 576, 1536, 2056, 4096}) {
      const int64_t rows = width == 576 ? 19 : 3;
      expect_norm_matches(guarded_normal({rows, width}, dtype, 1),
                          guarded_normal({width}, dtype, 2),
                          guarded_normal({rows, width}, dtype, 3));
    }
  }
}

TEST(RmsNormKernel, TakesWeightsThatAreNotAligned) {
  const auto dtype = torch::kBFloat16;
  expect_norm_matches(guarded_normal({3, 64}, dtype, 1),
                      guarded_normal({65}, dtype, 2).narrow(0, 1, 64),
                      guarded_normal({3, 64}, dtype, 3));
}

TEST(RmsNormKernel, GivesWideRowsToStockOperators) {
  const auto dtype = torch::kFloat32;
  expect_norm_matches(guarded_normal({2, 16384}, dtype, 1), guarded_normal({16384}, dtype, 2),
                      guarded_normal({2, 16384}, dtype, 3));
}

}  // namespace
}  // namespace sftbench::ops
