#include "kernels/kernel_test_support.h"
#include "ops/rope_impl.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

Tensor reference(const Tensor& x, const Tensor& cos, const Tensor& sin, double sign) {
  const auto wide = [](const Tensor& t) { return t.to(torch::kFloat64); };
  const auto halves = wide(x).chunk(2, -1);
  const Tensor c = wide(cos).unsqueeze(-2), s = wide(sin).unsqueeze(-2) * sign;
  return torch::cat({halves[0] * c - halves[1] * s, halves[1] * c + halves[0] * s}, -1);
}

void expect_rope_matches(const Tensor& q, const Tensor& k, const Tensor& cos, const Tensor& sin) {
  const double tolerance = kernel_tolerance(q.scalar_type());
  for_each_order([&] {
    for (const bool inverse : {false, true}) {
      const double sign = inverse ? -1.0 : 1.0;
      const auto [q_rotated, k_rotated] = rotate_cuda(q, k, cos, sin, inverse);
      EXPECT_TRUE(q_rotated.is_contiguous() && k_rotated.is_contiguous());
      expect_near(q_rotated, reference(q, cos, sin, sign), tolerance, 1.0);
      expect_near(k_rotated, reference(k, cos, sin, sign), tolerance, 1.0);
    }
  });
}

TEST(RopeKernel, MatchesFloat64) {
  for (const auto dtype : kKernelDtypes) {
    for (const int64_t dim : {2, 6, 64, 80}) {
      const Tensor q = guarded_normal({2, 5, 3, dim}, dtype, 1);
      const Tensor k = guarded_normal({2, 5, 1, dim}, dtype, 2);
      for (const bool each : {false, true}) {  // angles for each sequence of the batch
        const auto sizes =
            each ? std::vector<int64_t>{2, 5, dim / 2} : std::vector<int64_t>{5, dim / 2};
        expect_rope_matches(q, k, guarded_normal(sizes, dtype, 3), guarded_normal(sizes, dtype, 4));
      }
    }
  }
}

// Slices of one stacked product, and heads before positions.
TEST(RopeKernel, TakesStridesOfAnyKind) {
  for (const auto dtype : kKernelDtypes) {
    const Tensor qkv = guarded_normal({2, 4, 6, 32}, dtype, 1);
    const Tensor cos = guarded_normal({4, 16}, dtype, 3), sin = guarded_normal({4, 16}, dtype, 4);
    expect_rope_matches(qkv.narrow(2, 0, 3), qkv.narrow(2, 3, 1), cos, sin);
    const Tensor heads_first = guarded_normal({2, 3, 4, 32}, dtype, 2);
    expect_rope_matches(heads_first.transpose(1, 2), heads_first.transpose(1, 2), cos, sin);
    const Tensor odd = guarded_normal({2, 4, 3, 33}, dtype, 5).narrow(3, 1, 32);
    expect_rope_matches(odd, odd, cos, sin);
    const Tensor across = guarded_normal({32, 4, 3, 2}, dtype, 6).transpose(0, 3);
    expect_rope_matches(across, across, cos, sin);
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
