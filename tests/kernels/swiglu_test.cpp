#include "kernels/kernel_test_support.h"
#include "ops/swiglu_impl.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

// [rows, I] each, or halves of one tensor.
void expect_swiglu_matches(const GateAndUp& in, const Tensor& dy, const GateAndUp& into) {
  const auto dtype = dy.scalar_type();
  const auto wide = [](const Tensor& x) { return x.to(torch::kFloat64).set_requires_grad(true); };
  const Tensor wide_gate = wide(in.gate), wide_up = wide(in.up);
  const Tensor y = guarded_nan(dy.sizes(), dtype);
  for (const GateForm form : {GateForm::kSilu, GateForm::kGeluTanh}) {
    const bool is_silu = form == GateForm::kSilu;
    for (const Tensor& of : {wide_gate, wide_up}) of.mutable_grad() = Tensor();
    const Tensor expected =
        (is_silu ? torch::silu(wide_gate) : at::gelu(wide_gate, "tanh")) * wide_up;
    expected.backward(dy.to(torch::kFloat64));
    for_each_order([&] {
      for (const Tensor& result : {y, into.gate, into.up}) result.fill_(std::nan(""));
      kSwigluCuda.forward(in, form, y);
      expect_near(y, expected.detach(), kernel_tolerance(dtype));
      kSwigluCuda.backward(dy, in, form, into);
      expect_near(into.gate, wide_gate.grad(), kernel_tolerance(dtype), 0.05);
      expect_near(into.up, wide_up.grad(), kernel_tolerance(dtype));
    });
  }
}

void expect_swiglu_matches(const Tensor& gate, const Tensor& up, const Tensor& dy) {
  const auto filled = [&] { return guarded_nan(gate.sizes(), gate.scalar_type()); };
  expect_swiglu_matches({gate, up}, dy, {filled(), filled()});
}

TEST(SwigluKernel, MatchesFloat64) {
  for (const auto dtype : kKernelDtypes) {
    for (const int64_t numel : {1, 7, 8, 255, 2048, 4104}) {
      const auto row = [&](uint64_t seed) { return guarded_normal({1, numel}, dtype, seed); };
      expect_swiglu_matches(row(1), row(2), row(3));
    }
  }
}

// Views may begin anywhere.
TEST(SwigluKernel, TakesTensorsThatAreNotAligned) {
  for (const auto dtype : kKernelDtypes) {
    const auto part = [&](uint64_t seed) {
      return guarded_normal({1, 65}, dtype, seed).narrow(1, 1, 64);
    };
    expect_swiglu_matches(part(1), part(2), part(3));
  }
}

// Rows of widths that packs fill, and that they do not.
TEST(SwigluKernel, TakesHalvesOfOneTensor) {
  for (const auto dtype : kKernelDtypes) {
    for (const int64_t width : {1, 12, 64, 513}) {
      for (const int64_t rows : {1, 2, 37}) {
        const auto halves = [&](const Tensor& both) {
          return GateAndUp{both.narrow(1, 0, width), both.narrow(1, width, width)};
        };
        expect_swiglu_matches(halves(guarded_normal({rows, 2 * width}, dtype, 1)),
                              guarded_normal({rows, width}, dtype, 2),
                              halves(guarded_nan({rows, 2 * width}, dtype)));
      }
    }
  }
}

TEST(SwigluKernel, SaturatesWithoutNan) {
  for (const auto dtype : kKernelDtypes) {
    const Tensor gate =
        guarded(torch::tensor({-1e4, -100.0, -88.5, 0.0, 88.5, 100.0, 1e4}, dtype).view({1, -1}));
    const Tensor ones = guarded(torch::ones_like(gate)), into = guarded_nan(gate.sizes(), dtype);
    for (const GateForm form : {GateForm::kSilu, GateForm::kGeluTanh}) {
      kSwigluCuda.forward({gate, ones}, form, into);
      EXPECT_TRUE(into.isfinite().all().item<bool>());
      kSwigluCuda.backward(ones, {gate, ones}, form, {into, guarded_nan(gate.sizes(), dtype)});
      EXPECT_EQ(into[0][0].item<double>(), 0.0);
      EXPECT_EQ(into[0][6].item<double>(), 1.0);
    }
  }
}

TEST(SwigluKernel, TakesNothing) {
  for (const Tensor& nothing : {torch::empty({1, 0}), torch::empty({0, 8})}) {
    kSwigluCuda.forward({nothing, nothing}, GateForm::kSilu, nothing);
    kSwigluCuda.backward(nothing, {nothing, nothing}, GateForm::kSilu, {nothing, nothing});
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
