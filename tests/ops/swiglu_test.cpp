#include "sftbench/ops/swiglu.h"

#include <cmath>

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

const std::vector<std::vector<int64_t>> kShapes = {{1},     {3, 1},      {2, 3, 1536},
                                                   {5, 17}, {7, 31, 33}, {40000}};

Tensor reference(const Tensor& gate, const Tensor& up) {
  return torch::silu(gate) * up;
}

TEST(Swiglu, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const auto& shape : kShapes) {
      expect_op_matches(
          "swiglu", [](const auto& in) { return swiglu(in[0], in[1]); },
          [](const auto& in) { return reference(in[0], in[1]); },
          {random_tensor(shape, dtype, 1), random_tensor(shape, dtype, 2)});
    }
  }
}

TEST(Swiglu, MatchesForHalvesOfOneTensor) {
  for (const auto dtype : kDtypes) {
    const auto of_halves = [](const auto& in) {
      const auto halves = in[0].chunk(2, -1);
      return reference(halves[0], halves[1]);
    };
    for (const auto& shape : std::vector<std::vector<int64_t>>{
             {2}, {1, 34}, {6, 70}, {3, 5, 128}, {300, 2050}, {0, 16}}) {
      expect_op_matches("swiglu halves", [](const auto& in) { return swiglu(in[0]); }, of_halves,
                        {random_tensor(shape, dtype, 1)});
    }
    expect_op_matches(
        "swiglu halves of columns", [](const auto& in) { return swiglu(in[0].t()); },
        [&](const auto& in) { return of_halves(std::vector<Tensor>{in[0].t()}); },
        {random_tensor({70, 6}, dtype, 1)});
  }
}

TEST(Swiglu, ExtremeGatesSaturateWithoutNan) {
  for (const auto dtype : kDtypes) {
    const Tensor gate =
        leaf(torch::tensor({-1e4, -100.0, -88.5, 0.0, 88.5, 100.0, 1e4}, dtype).to(test_device()));
    const Tensor up = leaf(torch::ones_like(gate));
    const Tensor y = swiglu(gate, up);
    expect_close("saturated", y, torch::silu(gate.detach().to(torch::kFloat64)));
    y.sum().backward();
    EXPECT_TRUE(gate.grad().isfinite().all().item<bool>());
    EXPECT_EQ(gate.grad()[0].item<double>(), 0.0);
    EXPECT_EQ(gate.grad()[6].item<double>(), 1.0);
  }
}

TEST(Swiglu, NanPropagates) {
  for (const auto dtype : kDtypes) {
    const Tensor gate = torch::tensor({std::nan(""), 1.0, 2.0}, dtype).to(test_device());
    const Tensor up = torch::tensor({1.0, std::nan(""), 2.0}, dtype).to(test_device());
    const Tensor y = swiglu(gate, up);
    EXPECT_TRUE(y[0].isnan().item<bool>());
    EXPECT_TRUE(y[1].isnan().item<bool>());
    EXPECT_TRUE(y[2].isfinite().item<bool>());
  }
}

TEST(Swiglu, WhatHasNoHalvesIsRefused) {
  try {
    swiglu(torch::zeros({2, 7}));
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "swiglu: gate_and_up must be [..., 2 I], got float32 [2, 7] on cpu");
  }
}

TEST(Swiglu, DifferentShapesAreRefused) {
  try {
    swiglu(torch::zeros({2, 8}), torch::zeros({2, 7}));
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "swiglu: up must be float32 [2, 8] on cpu, got float32 [2, 7] on cpu");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
