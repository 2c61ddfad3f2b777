#include "kernels/kernel_test_support.h"
#include "ops/causal_convolution_impl.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

struct Case {
  int64_t batch, length, channels, taps;
  std::vector<int64_t> offsets;
};

// Packs and single channels; fewer positions than taps; one tap and the most; sequences shorter
// than the taps; more positions than a block of the taps' gradients takes.
const std::vector<Case> kCases = {{1, 1, 1, 1, {}},    {2, 3, 8, 4, {}},
                                  {2, 70, 33, 4, {}},  {1, 20, 64, 8, {}},
                                  {3, 40, 264, 2, {}}, {1, 150, 24, 4, {0, 1, 3, 70, 150}}};

ConvolutionInputs inputs_of(const Case& c, torch::Dtype dtype, bool silu, bool bias) {
  ConvolutionInputs in;
  in.x = guarded_normal({c.batch, c.length, c.channels}, dtype, 1);
  in.taps = guarded_normal({c.taps, c.channels}, torch::kFloat32, 2);
  if (bias) in.bias = guarded_normal({c.channels}, torch::kFloat32, 3);
  in.silu = silu;
  in.offsets = c.offsets;
  if (!c.offsets.empty()) in.cumulative = guarded(torch::tensor(c.offsets, torch::kInt32));
  return in;
}

// Against stock operators in float64, which tests/ops holds to torch's own convolution.
void expect_convolution_matches(const ConvolutionInputs& in) {
  const auto wide = [](const Tensor& t) { return t.defined() ? t.to(torch::kFloat64) : t; };
  const auto dtype = in.x.scalar_type();
  const ConvolutionInputs reference{wide(in.x), wide(in.taps), wide(in.bias),
                                    in.silu,    in.offsets,    {}};
  const Tensor dy = guarded_normal(in.x.sizes(), dtype, 4);
  const Tensor y = kConvolutionAten.forward(reference);
  const ConvolutionGradients expected = kConvolutionAten.backward(wide(dy), reference);
  for_each_order([&] {
    expect_near(kConvolutionCuda.forward(in), y, kernel_tolerance(dtype), 1.0);
    const ConvolutionGradients found = kConvolutionCuda.backward(dy, in);
    expect_near(found.x, expected.x, kernel_tolerance(dtype), 1.0);
    expect_near(found.taps, expected.taps, 1e-5, 1.0);
    EXPECT_EQ(found.bias.defined(), in.bias.defined());
    if (in.bias.defined()) expect_near(found.bias, expected.bias, 1e-5, 1.0);
  });
}

TEST(ConvolutionKernel, MatchesFloat64) {
  for (const auto dtype : kKernelDtypes) {
    for (const Case& c : kCases) {
      for (const bool more : {false, true})
        expect_convolution_matches(inputs_of(c, dtype, /*silu=*/more, /*bias=*/more));
    }
  }
}

TEST(ConvolutionKernel, ReadsASliceOfTheProjectionWhereItLies) {
  const Case c{2, 30, 32, 4, {}};
  for (const int64_t first : {8, 3}) {  // with packs and without
    ConvolutionInputs in = inputs_of(c, torch::kBFloat16, true, true);
    in.x = guarded_normal({c.batch, c.length, 48}, torch::kBFloat16, 5).narrow(2, first, 32);
    expect_convolution_matches(in);
  }
}

TEST(ConvolutionKernel, GivesManyTapsToStockOperators) {
  expect_convolution_matches(inputs_of({1, 40, 8, 9, {}}, torch::kFloat32, true, true));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
