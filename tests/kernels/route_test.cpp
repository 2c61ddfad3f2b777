#include "kernels/kernel_test_support.h"
#include "ops/route_impl.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

struct RouteCase {
  int64_t tokens, choices, width;
};

// Widths that packs fill and that they do not, narrower and wider than a block.
const std::vector<RouteCase> kRouteCases = {{1, 1, 1},  {5, 2, 7},    {9, 8, 64},
                                            {3, 3, 33}, {4, 2, 1032}, {2, 6, 2049}};

// Each choice has a row of its own, in any order.
Tensor some_positions(const RouteCase& c) {
  auto generator = at::detail::createCPUGenerator(7);
  return guarded(
      at::randperm(c.tokens * c.choices, generator, torch::kInt64).view({c.tokens, c.choices}));
}

Tensor combined(const Tensor& y, const Tensor& weights, const Tensor& positions) {
  return (y.index_select(0, positions.view(-1)).view({positions.size(0), positions.size(1), -1}) *
          weights.unsqueeze(-1))
      .sum(1);
}

TEST(RouteKernel, CombinesAsFloat64Does) {
  for (const auto dtype : kKernelDtypes) {
    for (const RouteCase& c : kRouteCases) {
      const Tensor y = guarded_normal({c.tokens * c.choices, c.width}, dtype, 1);
      const Tensor weights = guarded_normal({c.tokens, c.choices}, torch::kFloat32, 2);
      const Tensor positions = some_positions(c);
      const Tensor wide = y.to(torch::kFloat64);
      for_each_order([&] {
        expect_near(kRouteCuda.combine(y, weights, positions),
                    combined(wide, weights.to(torch::kFloat64), positions), kernel_tolerance(dtype),
                    1.0);
        expect_near(kRouteCuda.combine(y, {}, positions),
                    combined(wide, torch::ones_like(weights, torch::kFloat64), positions),
                    kernel_tolerance(dtype), 1.0);
      });
    }
  }
}

TEST(RouteKernel, GradientsAreThoseOfFloat64) {
  for (const auto dtype : kKernelDtypes) {
    for (const RouteCase& c : kRouteCases) {
      const Tensor y = guarded_normal({c.tokens * c.choices, c.width}, dtype, 1);
      const Tensor weights = guarded_normal({c.tokens, c.choices}, torch::kFloat32, 2);
      const Tensor upstream = guarded_normal({c.tokens, c.width}, dtype, 3);
      const Tensor positions = some_positions(c);
      const auto leaf = [](const Tensor& x) { return x.to(torch::kFloat64).requires_grad_(true); };
      const Tensor wide_y = leaf(y), wide_weights = leaf(weights);
      combined(wide_y, wide_weights, positions).backward(upstream.to(torch::kFloat64));
      for_each_order([&] {
        const auto [dy, d_weights] = kRouteCuda.combine_backward(upstream, y, weights, positions);
        expect_near(dy, wide_y.grad(), kernel_tolerance(dtype));
        EXPECT_EQ(d_weights.scalar_type(), torch::kFloat32);
        expect_near(d_weights, wide_weights.grad(), kernel_tolerance(torch::kFloat32, 4), 10.0);
      });
    }
  }
}

// Sums in the experts' dtype would lose the small ones.
TEST(RouteKernel, SumsAreFloat32) {
  Tensor y = torch::zeros({9, 8}, torch::kBFloat16);
  y[0].fill_(1.0);
  y.slice(0, 1).fill_(1.0 / 512);
  const Tensor positions = torch::arange(9).view({1, 9});
  const Tensor out = kRouteCuda.combine(guarded(y), {}, guarded(positions));
  EXPECT_EQ(out[0][0].item<double>(), 1.0 + 8.0 / 512);
}

TEST(RouteKernel, TakesNothing) {
  const Tensor nothing = torch::empty({0, 8}), no_positions = torch::empty({0, 2}, torch::kInt64);
  EXPECT_EQ(kRouteCuda.combine(nothing, {}, no_positions).size(0), 0);
  const Tensor weights = torch::empty({0, 2});
  EXPECT_EQ(kRouteCuda.combine_backward(nothing, nothing, weights, no_positions).second.size(0), 0);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
