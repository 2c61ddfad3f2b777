#include "kernels/kernel_test_support.h"
#include "ops/gated_norm_impl.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

constexpr double kEpsilon = 1e-5;

// Against stock operators in float64, which tests/ops holds to the formula.
void expect_gated_norm_matches(const Tensor& y, const Tensor& gate, const Tensor& weight) {
  const auto dtype = y.scalar_type();
  const auto wide = [](const Tensor& t) { return t.to(torch::kFloat64); };
  const Tensor d_out = guarded_normal(y.sizes(), dtype, 9);
  Tensor expected = torch::empty(y.sizes(), torch::kFloat64);
  Tensor rstd_expected = torch::empty({y.size(0), y.size(1)}, torch::kFloat64);
  kGatedNormAten.forward(wide(y), wide(gate), wide(weight), kEpsilon, expected, rstd_expected);
  const GatedNormGradients wanted =
      kGatedNormAten.backward(wide(d_out), wide(y), wide(gate), wide(weight), rstd_expected);
  for_each_order([&] {
    Tensor out = guarded_nan(y.sizes(), dtype);
    Tensor rstd = guarded_nan({y.size(0), y.size(1)}, torch::kFloat32);
    kGatedNormCuda.forward(y, gate, weight, kEpsilon, out, rstd);
    expect_near(rstd, rstd_expected, 1e-5);
    expect_near(out, expected, kernel_tolerance(dtype, 2), 0.1);
    const GatedNormGradients found = kGatedNormCuda.backward(d_out, y, gate, weight, rstd);
    expect_near(found.y, wanted.y, kernel_tolerance(dtype, 2), 1.0);
    expect_near(found.gate, wanted.gate, kernel_tolerance(dtype, 2), 1.0);
    expect_near(found.weight, wanted.weight, 1e-5, 1.0);
  });
}

// Fewer channels than threads and more; with packs and without; more rows than blocks.
TEST(GatedNormKernel, MatchesFloat64) {
  for (const auto dtype : kKernelDtypes) {
    for (const int64_t width : {8, 33, 576, 2056}) {
      const int64_t rows = width == 33 ? 19 : 3, groups = width == 576 ? 1 : 2;
      expect_gated_norm_matches(guarded_normal({rows, groups, width}, dtype, 1),
                                guarded_normal({rows, groups, width}, dtype, 2),
                                guarded_normal({groups, width}, torch::kFloat32, 3));
    }
  }
}

TEST(GatedNormKernel, ReadsTheGateWhereItLies) {
  const auto dtype = torch::kBFloat16;
  for (const int64_t first : {8, 3}) {  // with packs and without
    const Tensor projected = guarded_normal({5, 1, 96}, dtype, 2);
    expect_gated_norm_matches(guarded_normal({5, 1, 64}, dtype, 1), projected.narrow(2, first, 64),
                              guarded_normal({1, 64}, torch::kFloat32, 3));
  }
}

TEST(GatedNormKernel, GivesWideGroupsToStockOperators) {
  const auto dtype = torch::kFloat32;
  expect_gated_norm_matches(guarded_normal({2, 1, 16384}, dtype, 1),
                            guarded_normal({2, 1, 16384}, dtype, 2),
                            guarded_normal({1, 16384}, torch::kFloat32, 3));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
