#include "sftbench/ops/gated_norm.h"

#include "ops/op_test_support.h"
#include "sftbench/ops/plain.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

constexpr double kEpsilon = 1e-5;

// MambaRMSNormGated.forward of Hugging Face, with groups as mamba_ssm has them.
Tensor reference(const Tensor& y, const Tensor& gate, const Tensor& weight, int64_t groups) {
  const Tensor gated = (y * gate * gate.sigmoid()).unflatten(-1, {groups, y.size(-1) / groups});
  const Tensor variance = gated.pow(2).mean(-1, /*keepdim=*/true);
  return weight * (gated * torch::rsqrt(variance + kEpsilon)).flatten(-2);
}

struct Case {
  std::vector<int64_t> sizes;
  int64_t groups;
};

// One row; whole and partial vectors; several groups; more rows than a task of the CPU takes.
const std::vector<Case> kCases = {{{1, 8}, 1},      {{3, 64}, 1},  {{2, 5, 34}, 2},
                                  {{2, 19, 96}, 3}, {{1, 200}, 1}, {{14}, 2}};

TEST(GatedNorm, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      expect_op_matches(
          "gated_rms_norm of " + std::to_string(c.sizes.back()),
          [&](const auto& in) { return gated_rms_norm(in[0], in[1], in[2], c.groups, kEpsilon); },
          [&](const auto& in) { return reference(in[0], in[1], in[2], c.groups); },
          {random_tensor(c.sizes, dtype, 1), random_tensor(c.sizes, dtype, 2),
           random_tensor({c.sizes.back()}, dtype, 3)});
    }
  }
}

TEST(GatedNorm, ReadsTheGateAsASliceOfTheProjection) {
  for (const auto dtype : kDtypes) {
    expect_op_matches(
        "gated_rms_norm of a slice",
        [](const auto& in) {
          return gated_rms_norm(in[0], in[1].slice(-1, 5, 37), in[2], 2, kEpsilon);
        },
        [](const auto& in) { return reference(in[0], in[1].slice(-1, 5, 37), in[2], 2); },
        {random_tensor({2, 3, 32}, dtype, 1), random_tensor({2, 3, 50}, dtype, 2),
         random_tensor({32}, dtype, 3)});
  }
}

TEST(GatedNorm, TakesWeightsInFloat32BesideNarrowerRows) {
  for (const auto dtype : {torch::kBFloat16, torch::kFloat16}) {
    const Tensor y = random_tensor({4, 32}, dtype, 1), gate = random_tensor({4, 32}, dtype, 2);
    const Tensor weight = leaf(random_tensor({32}, torch::kFloat32, 3));
    const Tensor out = gated_rms_norm(y, gate, weight, 1, kEpsilon);
    EXPECT_EQ(out.scalar_type(), dtype);
    const Tensor wide_weight = leaf(weight, torch::kFloat64);
    const Tensor expected =
        reference(y.to(torch::kFloat64), gate.to(torch::kFloat64), wide_weight, 1);
    expect_close("output", out, expected);
    const Tensor upstream = random_tensor({4, 32}, dtype, 4);
    out.backward(upstream);
    expected.backward(upstream.to(torch::kFloat64));
    EXPECT_EQ(weight.grad().scalar_type(), torch::kFloat32);
    expect_close("gradient of the weight", weight.grad(), wide_weight.grad());
  }
}

TEST(GatedNorm, SumsDoNotDependOnThreads) {
  const auto gradients = [](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const Tensor weight = leaf(random_tensor({48}, torch::kFloat32, 3));
    gated_rms_norm(random_tensor({100, 48}, torch::kFloat32, 1),
                   random_tensor({100, 48}, torch::kFloat32, 2), weight, 2, kEpsilon)
        .sum()
        .backward();
    at::set_num_threads(before);
    return weight.grad();
  };
  EXPECT_TRUE(gradients(1).equal(gradients(2)));
}

TEST(GatedNorm, ThePlainFormIsTheSameUpToRounding) {
  for (const auto dtype : kDtypes) {
    expect_op_matches(
        "plain gated_rms_norm",
        [](const auto& in) { return plain::gated_rms_norm(in[0], in[1], in[2], 2, kEpsilon); },
        [](const auto& in) { return reference(in[0], in[1], in[2], 2); },
        {random_tensor({2, 3, 32}, dtype, 1), random_tensor({2, 3, 32}, dtype, 2),
         random_tensor({32}, dtype, 3)},
        /*slack=*/2.0);
  }
}

TEST(GatedNorm, NoRowsHaveNoOutput) {
  const Tensor none = random_tensor({0, 8}, torch::kFloat32, 1);
  EXPECT_EQ(gated_rms_norm(none, none, random_tensor({8}, torch::kFloat32, 2), 2, kEpsilon).sizes(),
            (std::vector<int64_t>{0, 8}));
}

TEST(GatedNorm, WrongShapesAreRefused) {
  const Tensor y = random_tensor({2, 6}, torch::kFloat32, 1);
  const Tensor weight = random_tensor({6}, torch::kFloat32, 2);
  EXPECT_THROW(gated_rms_norm(y, y, weight, 4, kEpsilon), std::invalid_argument);
  EXPECT_THROW(gated_rms_norm(y, y, weight, 0, kEpsilon), std::invalid_argument);
  EXPECT_THROW(gated_rms_norm(y, y.slice(1, 1), weight, 2, kEpsilon), std::invalid_argument);
  EXPECT_THROW(gated_rms_norm(y, y, weight.slice(0, 1), 2, kEpsilon), std::invalid_argument);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
