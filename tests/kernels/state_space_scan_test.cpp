#include "kernels/kernel_test_support.h"
#include "ops/state_space_scan_impl.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

struct Case {
  int64_t batch, length, heads, dim, groups, state;
  std::vector<int64_t> offsets;
};

// One position; odd sizes; whole and partial chunks; groups of several heads; sequences that begin
// at a chunk's first and last position, several in one chunk, and one over three chunks.
const std::vector<Case> kCases = {{1, 1, 1, 1, 1, 1, {}},
                                  {2, 7, 3, 5, 1, 3, {}},
                                  {1, 128, 4, 16, 2, 16, {}},
                                  {2, 260, 6, 20, 3, 9, {}},
                                  {2, 256, 2, 8, 1, 24, {}},
                                  {1, 300, 4, 12, 2, 10, {0, 1, 131, 138, 300}},
                                  {1, 512, 3, 8, 1, 16, {0, 127, 128, 500, 501, 512}}};

Tensor wide(const Tensor& tensor) {
  return tensor.to(torch::kFloat64);
}

Tensor positive(at::IntArrayRef sizes, uint64_t seed) {
  return at::softplus(wide(guarded_normal(sizes, torch::kFloat64, seed)) - 1).to(torch::kFloat32);
}

ScanInputs inputs_of(const Case& c, torch::Dtype dtype) {
  ScanInputs in{guarded_normal({c.batch, c.length, c.heads, c.dim}, dtype, 1),
                guarded(positive({c.batch, c.length, c.heads}, 2)),
                guarded(-positive({c.heads}, 3)),
                guarded_normal({c.batch, c.length, c.groups, c.state}, dtype, 4),
                guarded_normal({c.batch, c.length, c.groups, c.state}, dtype, 5),
                guarded_normal({c.heads}, torch::kFloat32, 6),
                c.offsets,
                {}};
  if (!c.offsets.empty()) in.cumulative = guarded(torch::tensor(c.offsets, torch::kInt32));
  return in;
}

ScanInputs widened(const ScanInputs& in) {
  return {wide(in.x), wide(in.dt), wide(in.a), wide(in.b), wide(in.c), wide(in.d), in.offsets, {}};
}

// Relative to the largest value of the tensor: what decays is far smaller than what it is added to.
void expect_like(const Tensor& actual, const Tensor& expected, double tolerance) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  const double largest = std::max(expected.abs().max().item<double>(), 1e-3);
  expect_near(actual, expected, tolerance, largest);
}

// Against stock operators in float64, which tests/ops holds to the recurrence. Operands of products
// are rounded to x's dtype once more.
void expect_scan_matches(const ScanInputs& in) {
  const auto dtype = in.x.scalar_type();
  const ScanInputs reference = widened(in);
  const auto [y, states] = kScanAten.forward(reference, true);
  const Tensor dy = guarded_normal(in.x.sizes(), dtype, 7);
  const ScanGradients expected = kScanAten.backward(wide(dy), reference, states);
  const double tolerance = dtype == torch::kFloat32 ? 1e-5 : kernel_tolerance(dtype, 2);
  for_each_order([&] {
    const auto [found, found_states] = kScanCuda.forward(in, true);
    EXPECT_EQ(found.scalar_type(), dtype);
    expect_like(found, y, tolerance);
    const ScanGradients gradients = kScanCuda.backward(dy, in, found_states);
    expect_like(gradients.x, expected.x, tolerance);
    expect_like(gradients.b, expected.b, tolerance);
    expect_like(gradients.c, expected.c, tolerance);
    expect_like(gradients.dt, expected.dt, tolerance);
    expect_like(gradients.a, expected.a, tolerance);
    expect_like(gradients.d, expected.d, tolerance);
  });
}

TEST(ScanKernel, MatchesFloat64) {
  for (const auto dtype : kKernelDtypes) {
    for (const Case& c : kCases) {
      SCOPED_TRACE(std::to_string(c.length) + " of " + torch::toString(dtype));
      expect_scan_matches(inputs_of(c, dtype));
    }
  }
}

TEST(ScanKernel, ReadsSlicesOfTheConvolutionWhereTheyLie) {
  const Case c{2, 256, 4, 8, 1, 8, {}};
  for (const auto dtype : kKernelDtypes) {
    ScanInputs in = inputs_of(c, dtype);
    const int64_t inner = c.heads * c.dim, shared = c.groups * c.state;
    const Tensor convolved =
        guarded(torch::cat({in.x.flatten(2), in.b.flatten(2), in.c.flatten(2)}, -1));
    in.x = convolved.slice(-1, 0, inner).view(in.x.sizes());
    in.b = convolved.slice(-1, inner, inner + shared).view(in.b.sizes());
    in.c = convolved.slice(-1, inner + shared).view(in.c.sizes());
    expect_scan_matches(in);
  }
}

TEST(ScanKernel, StrongDecaysLeaveNothingInfinite) {
  ScanInputs in = inputs_of({1, 200, 2, 8, 1, 8, {}}, torch::kFloat32);
  in.a.fill_(-100.0);
  expect_scan_matches(in);
}

// What overflows in a sequence stays there.
TEST(ScanKernel, AnInfiniteStateDoesNotReachTheNextSequence) {
  const Case c{1, 300, 2, 8, 1, 8, {0, 140, 300}};
  ScanInputs in = inputs_of(c, torch::kFloat32), infinite = in;
  infinite.x = in.x.clone();
  infinite.x.slice(1, 100, 101).fill_(std::numeric_limits<float>::infinity());
  const Tensor y = kScanCuda.forward(in, false).first;
  const Tensor with = kScanCuda.forward(infinite, false).first;
  EXPECT_FALSE(with.slice(1, 100, 140).isfinite().all().item<bool>());
  EXPECT_TRUE(with.slice(1, 256).equal(y.slice(1, 256)));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
