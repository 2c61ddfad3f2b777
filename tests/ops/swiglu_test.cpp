#include "sftbench/ops/swiglu.h"

#include <cmath>

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

const std::vector<std::vector<int64_t>> kShapes = {{1},     {3, 1},      {2, 3, 1536},
                                                   {5, 17}, {7, 31, 33}, {40000}};

// The operator and its reference, by the name of the activation: "silu", or that of gelu's
// approximation.
struct Gated {
  std::string activation;

  bool is_silu() const { return activation == "silu"; }
  Gelu form() const { return activation == "tanh" ? Gelu::kTanh : Gelu::kError; }
  Tensor reference(const Tensor& gate, const Tensor& up) const {
    return (is_silu() ? torch::silu(gate) : at::gelu(gate, activation)) * up;
  }
  Tensor operator()(const Tensor& gate, const Tensor& up) const {
    return is_silu() ? swiglu(gate, up) : geglu(gate, up, form());
  }
  Tensor operator()(const Tensor& both) const {
    return is_silu() ? swiglu(both) : geglu(both, form());
  }
};

class GatedTest : public testing::TestWithParam<std::string> {
 protected:
  const Gated gated_ = {GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Activations, GatedTest, testing::Values("silu", "tanh", "none"),
                         [](const auto& of) { return of.param; });

TEST_P(GatedTest, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const auto& shape : kShapes) {
      expect_op_matches(
          "gated", [&](const auto& in) { return gated_(in[0], in[1]); },
          [&](const auto& in) { return gated_.reference(in[0], in[1]); },
          {random_tensor(shape, dtype, 1), random_tensor(shape, dtype, 2)});
    }
  }
}

TEST_P(GatedTest, MatchesForHalvesOfOneTensor) {
  for (const auto dtype : kDtypes) {
    const auto of_halves = [&](const auto& in) {
      const auto halves = in[0].chunk(2, -1);
      return gated_.reference(halves[0], halves[1]);
    };
    for (const auto& shape : std::vector<std::vector<int64_t>>{
             {2}, {1, 34}, {6, 70}, {3, 5, 128}, {300, 2050}, {0, 16}}) {
      expect_op_matches("gated halves", [&](const auto& in) { return gated_(in[0]); }, of_halves,
                        {random_tensor(shape, dtype, 1)});
    }
    expect_op_matches(
        "gated halves of columns", [&](const auto& in) { return gated_(in[0].t()); },
        [&](const auto& in) { return of_halves(std::vector<Tensor>{in[0].t()}); },
        {random_tensor({70, 6}, dtype, 1)});
  }
}

TEST_P(GatedTest, ExtremeGatesSaturateWithoutNan) {
  for (const auto dtype : kDtypes) {
    const Tensor gate =
        leaf(torch::tensor({-1e4, -100.0, -88.5, 0.0, 88.5, 100.0, 1e4}, dtype).to(test_device()));
    const Tensor up = leaf(torch::ones_like(gate));
    const Tensor y = gated_(gate, up);
    expect_close(
        "saturated", y,
        gated_.reference(gate.detach().to(torch::kFloat64), up.detach().to(torch::kFloat64)));
    y.sum().backward();
    EXPECT_TRUE(gate.grad().isfinite().all().item<bool>());
    EXPECT_EQ(gate.grad()[0].item<double>(), 0.0);
    EXPECT_EQ(gate.grad()[6].item<double>(), 1.0);
  }
}

TEST_P(GatedTest, NanPropagates) {
  for (const auto dtype : kDtypes) {
    const Tensor gate = torch::tensor({std::nan(""), 1.0, 2.0}, dtype).to(test_device());
    const Tensor up = torch::tensor({1.0, std::nan(""), 2.0}, dtype).to(test_device());
    const Tensor y = gated_(gate, up);
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
