#include "sftbench/ops/grouped_linear.h"

#include "ops/op_test_support.h"
#include "sftbench/ops/recomputation.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

using Offsets = std::vector<int64_t>;

// One expert after the other, with stock operators. weights [E, out, in].
Tensor reference(const Tensor& x, const Tensor& weights, const Offsets& offsets,
                 const Tensor& bias = {}) {
  std::vector<Tensor> parts;
  for (int64_t e = 0; e < weights.size(0); ++e) {
    const Tensor y = torch::matmul(x.slice(0, offsets[e], offsets[e + 1]), weights[e].t());
    parts.push_back(bias.defined() ? y + bias[e] : y);
  }
  return torch::cat(parts, 0);
}

struct Case {
  Offsets offsets;
  int64_t in, out;
};

// Experts without rows at the start, in the middle and at the end; more rows and columns than a
// block has.
const std::vector<Case> kCases = {{{0, 1}, 1, 1},
                                  {{0, 0, 5, 5, 5, 18, 18}, 17, 9},
                                  {{0, 33, 34, 97}, 64, 130},
                                  {{0, 3, 301}, 40, 24},
                                  {{0, 2, 9}, 24, 1040},
                                  {{0, 0, 0}, 8, 4}};

TEST(GroupedLinear, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      const auto experts = static_cast<int64_t>(c.offsets.size()) - 1;
      expect_op_matches(
          "grouped_linear",
          [&](const auto& in) { return grouped_linear(in[0], in[1], c.offsets, in[2]); },
          [&](const auto& in) { return reference(in[0], in[1], c.offsets, in[2]); },
          {random_tensor({c.offsets.back(), c.in}, dtype, 1),
           random_tensor({experts, c.out, c.in}, dtype, 2),
           random_tensor({experts, c.out}, dtype, 3)});
    }
  }
}

TEST(GroupedLinear, MatchesForTransposedExperts) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      const auto experts = static_cast<int64_t>(c.offsets.size()) - 1;
      expect_op_matches(
          "grouped_linear transposed",
          [&](const auto& in) {
            return grouped_linear(in[0], in[1], c.offsets, in[2], ExpertLayout::kInOut);
          },
          [&](const auto& in) { return reference(in[0], in[1].transpose(1, 2), c.offsets, in[2]); },
          {random_tensor({c.offsets.back(), c.in}, dtype, 1),
           random_tensor({experts, c.in, c.out}, dtype, 2),
           random_tensor({experts, c.out}, dtype, 3)});
    }
  }
}

TEST(GroupedLinear, MatchesForATensorOfEachExpertAndNonContiguousRows) {
  const Offsets offsets = {0, 7, 7, 30};
  for (const auto dtype : kDtypes) {
    expect_op_matches(
        "grouped_linear list",
        [&](const auto& in) {
          return grouped_linear(in[0].t(), std::vector<Tensor>{in[1], in[2], in[3]}, offsets);
        },
        [&](const auto& in) {
          return reference(in[0].t(), torch::stack({in[1], in[2], in[3]}), offsets);
        },
        {random_tensor({20, 30}, dtype, 1), random_tensor({12, 20}, dtype, 2),
         random_tensor({12, 20}, dtype, 3), random_tensor({12, 20}, dtype, 4)});
  }
}

TEST(GroupedLinear, AddsToTheGradientsThatAreThere) {
  const Offsets offsets = {0, 40, 40, 65};
  for (const auto dtype : kDtypes) {
    const Tensor x = random_tensor({65, 40}, dtype, 1);
    const Tensor weights = leaf(random_tensor({3, 24, 40}, dtype, 2));
    const Tensor bias = leaf(random_tensor({3, 24}, dtype, 3));
    const Tensor upstream = random_tensor({65, 24}, dtype, 4);
    const Tensor before = random_tensor({3, 24, 40}, dtype, 5);
    const Tensor bias_before = random_tensor({3, 24}, dtype, 6);
    weights.mutable_grad() = before.clone();
    bias.mutable_grad() = bias_before.clone();
    void* const storage = weights.grad().data_ptr();
    grouped_linear(x, weights, offsets, bias).backward(upstream);
    const Tensor wide = leaf(weights, torch::kFloat64), wide_bias = leaf(bias, torch::kFloat64);
    reference(x.to(torch::kFloat64), wide, offsets, wide_bias)
        .backward(upstream.to(torch::kFloat64));
    expect_close("weights", weights.grad(), before.to(torch::kFloat64) + wide.grad());
    expect_close("bias", bias.grad(), bias_before.to(torch::kFloat64) + wide_bias.grad());
    EXPECT_TRUE(weights.grad()[1].equal(before[1]));  // no rows
    EXPECT_EQ(weights.grad().data_ptr(), storage);
  }
}

TEST(GroupedLinear, GradientsOfAListAreThoseOfTheTensorsThatWantThem) {
  const Offsets offsets = {0, 4, 4, 9};
  const Tensor x = random_tensor({9, 8}, torch::kFloat32, 1);
  const Tensor frozen = random_tensor({5, 8}, torch::kFloat32, 2);
  const Tensor idle = leaf(random_tensor({5, 8}, torch::kFloat32, 3));
  const Tensor master = leaf(random_tensor({5, 8}, torch::kFloat64, 4));
  grouped_linear(x, {frozen, idle, master.to(torch::kFloat32)}, offsets).sum().backward();
  EXPECT_FALSE(frozen.grad().defined());
  ASSERT_TRUE(idle.grad().defined());
  EXPECT_EQ(idle.grad().abs().max().item<double>(), 0.0);
  const Tensor expected = x.slice(0, 4, 9).to(torch::kFloat64).sum(0).expand({5, 8});
  EXPECT_LE(relative_error(master.grad(), expected), tolerance(torch::kFloat32));
}

TEST(GroupedLinear, SumsDoNotDependOnThreads) {
  const Offsets offsets = {0, 300, 310, 310, 700};
  const auto results = [&](int threads, torch::Dtype dtype) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    const Tensor x = leaf(random_tensor({700, 96}, dtype, 1));
    const Tensor weights = leaf(random_tensor({4, 72, 96}, dtype, 2));
    const Tensor y = grouped_linear(x, weights, offsets);
    y.backward(random_tensor({700, 72}, dtype, 3));
    at::set_num_threads(before);
    return std::vector<Tensor>{y.detach(), x.grad(), weights.grad()};
  };
  for (const auto dtype : {torch::kFloat32, torch::kBFloat16}) {
    const auto one = results(1, dtype), two = results(2, dtype);
    for (size_t i = 0; i < one.size(); ++i) {
      expect_close(std::to_string(i), two[i], one[i].to(torch::kFloat64));
    }
  }
}

TEST(GroupedLinear, FrozenWeightsGetNoGradientAndKeepNoInput) {
  const Tensor weights = random_tensor({2, 24, 40}, torch::kFloat32, 2);
  const Tensor leaf_x = leaf(random_tensor({5, 40}, torch::kFloat32, 1));
  Tensor x = leaf_x * 1;
  const Tensor y = grouped_linear(x, weights, {0, 2, 5});
  EXPECT_EQ(x.use_count(), 1u);
  y.sum().backward();
  EXPECT_TRUE(leaf_x.grad().defined());
  EXPECT_FALSE(weights.grad().defined());
}

TEST(GroupedLinear, TheLastProductOfARecomputationIsZeros) {
  const Tensor x = leaf(random_tensor({5, 40}, torch::kFloat32, 1));
  const Tensor weights = leaf(random_tensor({2, 24, 40}, torch::kFloat32, 2));
  const Recomputation recomputation;
  const LastProduct last;
  const Tensor y = grouped_linear(x, weights, {0, 2, 5});
  EXPECT_EQ(y.abs().sum().item<double>(), 0);
  y.sum().backward();
  EXPECT_GT(weights.grad().abs().sum().item<double>(), 0);
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no exception";
}

TEST(GroupedLinear, WrongShapesAreRefused) {
  const Tensor x = torch::zeros({4, 8}), weights = torch::zeros({2, 3, 8});
  EXPECT_EQ(error_of([&] {
              grouped_linear(torch::zeros({8}), weights, {0, 1, 4});
            }),
            "grouped_linear: x must be [T, in], got float32 [8] on cpu");
  EXPECT_EQ(error_of([&] {
              grouped_linear(x, torch::zeros({2, 3, 7}), {0, 1, 4});
            }),
            "grouped_linear: weights must be float32 [*, *, 8] on cpu, got float32 [2, 3, 7] on "
            "cpu");
  EXPECT_EQ(error_of([&] {
              grouped_linear(x, weights, {0, 1, 4}, {}, ExpertLayout::kInOut);
            }),
            "grouped_linear: weights must be float32 [*, 8, *] on cpu, got float32 [2, 3, 8] on "
            "cpu");
  EXPECT_EQ(error_of([&] {
              grouped_linear(x, torch::zeros({0, 3, 8}), {0});
            }),
            "grouped_linear: there must be an expert, got float32 [0, 3, 8] on cpu");
  EXPECT_EQ(error_of([&] { grouped_linear(x, std::vector<Tensor>{}, {0}); }),
            "grouped_linear: there must be an expert, got none");
  EXPECT_EQ(error_of([&] {
              grouped_linear(x, {weights[0], torch::zeros({4, 8})}, {0, 1, 4});
            }),
            "grouped_linear: each weight must be float32 [3, 8] on cpu, got float32 [4, 8] on cpu");
  EXPECT_EQ(error_of([&] {
              grouped_linear(x, weights, {0, 1, 4}, torch::zeros({3}));
            }),
            "grouped_linear: bias must be float32 [2, 3] on cpu, got float32 [3] on cpu");
}

TEST(GroupedLinear, WrongOffsetsAreRefused) {
  const Tensor x = torch::zeros({4, 8}), weights = torch::zeros({2, 3, 8});
  for (const Offsets& offsets : {Offsets{0, 4}, {0, 1, 3}, {1, 1, 4}, {0, 5, 4}, {}}) {
    const std::string error = error_of([&] { grouped_linear(x, weights, offsets); });
    EXPECT_EQ(error.find("grouped_linear: offsets must be 3 ascending numbers from 0 to 4, got ["),
              0u)
        << error;
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
