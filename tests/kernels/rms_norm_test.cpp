#include "kernels/kernel_test_support.h"
#include "ops/rms_norm_impl.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

constexpr double kEpsilon = 1e-5;

struct Addends {
  Tensor addend;      // of x, or undefined
  Tensor x_gradient;  // what comes back to the stream by other ways, or undefined
};

void expect_norm_matches(const Tensor& x, const Tensor& weight, const Tensor& dy,
                         const Addends& more = {}) {
  constexpr double kScale = 0.5;  // its product is exact: the sum is rounded once, as here
  const auto dtype = x.scalar_type();
  const auto wide = [](const Tensor& t) { return t.to(torch::kFloat64).set_requires_grad(true); };
  Tensor stream = x;
  if (more.addend.defined())
    stream = guarded((x.to(torch::kFloat32) + kScale * more.addend.to(torch::kFloat32)).to(dtype));
  const Tensor wide_x = wide(stream), wide_weight = wide(weight);
  const Tensor rstd_expected = (wide_x.square().mean(-1) + kEpsilon).rsqrt();
  Tensor loss = (wide_x * rstd_expected.unsqueeze(-1) * wide_weight * dy).sum();
  if (more.x_gradient.defined()) loss = loss + (wide_x * more.x_gradient).sum();
  loss.backward();
  const Tensor expected = (wide_x * rstd_expected.unsqueeze(-1) * wide_weight).detach();
  const double floor = more.x_gradient.defined() ? 1 : 0.1;  // sums may cancel out
  for_each_order([&] {
    Tensor y = guarded_nan(x.sizes(), dtype), rstd = guarded_nan({x.size(0)}, torch::kFloat32);
    const Tensor sum = more.addend.defined() ? guarded_nan(x.sizes(), dtype) : Tensor();
    kRmsNormCuda.forward({x, more.addend, sum, kScale}, weight, kEpsilon, y, rstd);
    if (sum.defined()) {
      EXPECT_TRUE(sum.equal(stream));
    }
    expect_near(rstd, rstd_expected.detach(), 1e-6);
    expect_near(y, expected, kernel_tolerance(dtype, 2));  // two roundings
    const RmsNormGradients all =
        kRmsNormCuda.backward(dy, more.x_gradient, stream, weight, rstd, true);
    expect_near(all.x, wide_x.grad(), kernel_tolerance(dtype), floor);
    expect_near(all.weight, wide_weight.grad(), 1e-5, 0.1);
    const RmsNormGradients without =
        kRmsNormCuda.backward(dy, more.x_gradient, stream, weight, rstd, false);
    expect_near(without.x, wide_x.grad(), kernel_tolerance(dtype), floor);
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

TEST(RmsNormKernel, AddsWhatGoesAroundIt) {
  for (const auto dtype : kKernelDtypes) {
    for (const int64_t width : {1, 33, 576, 4096, 16384}) {  // the last goes to stock operators
      const std::vector<int64_t> sizes = {5, width};
      const auto drawn = [&](uint64_t seed) { return guarded_normal(sizes, dtype, seed); };
      const Tensor weight = guarded_normal({width}, dtype, 2);
      expect_norm_matches(drawn(1), weight, drawn(3), {drawn(4), {}});
      expect_norm_matches(drawn(1), weight, drawn(3), {{}, drawn(5)});
      expect_norm_matches(drawn(1), weight, drawn(3), {drawn(4), drawn(5)});
    }
  }
}

TEST(RmsNormKernel, TakesAddendsThatAreNotAligned) {
  const auto dtype = torch::kBFloat16;
  const auto shifted = [&](uint64_t seed) {
    return guarded_normal({3 * 64 + 1}, dtype, seed).narrow(0, 1, 3 * 64).view({3, 64});
  };
  expect_norm_matches(guarded_normal({3, 64}, dtype, 1), guarded_normal({64}, dtype, 2),
                      guarded_normal({3, 64}, dtype, 3), {shifted(4), shifted(5)});
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

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
