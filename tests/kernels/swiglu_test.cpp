#include "kernels/kernel_test_support.h"
#include "ops/swiglu_impl.h"

namespace sftbench::ops {
namespace {

void expect_swiglu_matches(const Tensor& gate, const Tensor& up, const Tensor& dy) {
  const auto dtype = gate.scalar_type();
  const auto wide = [](const Tensor& x) { return x.to(torch::kFloat64).set_requires_grad(true); };
  const Tensor wide_gate = wide(gate), wide_up = wide(up);
  const Tensor expected = torch::silu(wide_gate) * wide_up;
  expected.backward(dy.to(torch::kFloat64));
  for_each_order([&] {
    expect_near(kSwigluCuda.forward(gate, up), expected.detach(), kernel_tolerance(dtype));
    const auto [d_gate, d_up] = kSwigluCuda.backward(dy, gate, up);
    expect_near(d_gate, wide_gate.grad(), kernel_tolerance(dtype), 0.05);
    expect_near(d_up, wide_up.grad(), kernel_tolerance(dtype));
  });
}

TEST(SwigluKernel, MatchesFloat64) {
  for (const auto dtype : kKernelDtypes) {
    for (const int64_t numel : {1, 7, 8, 255, 2048, 4104}) {
      expect_swiglu_matches(guarded_normal({numel}, dtype, 1), guarded_normal({numel}, dtype, 2),
                            guarded_normal({numel}, dtype, 3));
    }
  }
}

// Views may begin anywhere.
TEST(SwigluKernel, TakesTensorsThatAreNotAligned) {
  for (const auto dtype : kKernelDtypes) {
    const auto part = [&](uint64_t seed) {
      return guarded_normal({65}, dtype, seed).narrow(0, 1, 64);
    };
    expect_swiglu_matches(part(1), part(2), part(3));
  }
}

TEST(SwigluKernel, SaturatesWithoutNan) {
  for (const auto dtype : kKernelDtypes) {
    const Tensor gate = guarded(torch::tensor({-1e4, -100.0, -88.5, 0.0, 88.5, 100.0, 1e4}, dtype));
    const Tensor ones = guarded(torch::ones_like(gate));
    EXPECT_TRUE(kSwigluCuda.forward(gate, ones).isfinite().all().item<bool>());
    const Tensor d_gate = kSwigluCuda.backward(ones, gate, ones).first;
    EXPECT_EQ(d_gate[0].item<double>(), 0.0);
    EXPECT_EQ(d_gate[6].item<double>(), 1.0);
  }
}

TEST(SwigluKernel, TakesNothing) {
  const Tensor nothing = torch::empty({0, 8});
  EXPECT_EQ(kSwigluCuda.forward(nothing, nothing).numel(), 0);
  EXPECT_EQ(kSwigluCuda.backward(nothing, nothing, nothing).first.numel(), 0);
}

}  // namespace
}  // namespace sftbench::ops
