#include "sftbench/ops/low_rank.h"

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

constexpr double kScale = 3.0;

// The outputs as one tensor, so that one comparison covers all.
Tensor joined(const std::vector<Tensor>& outputs) {
  std::vector<Tensor> flat;
  for (const Tensor& output : outputs) flat.push_back(output.reshape({-1, output.size(-1)}));
  return torch::cat(flat, 1);
}

// x, y0, y1, a0, a1, b0, b1. What is written to in place is a copy.
Tensor by_operator(const std::vector<Tensor>& in) {
  return joined(add_low_rank(in[0], {in[1].clone(), in[2].clone()},
                             {{in[3], in[5]}, {in[4], in[6]}}, kScale));
}

Tensor by_hand(const std::vector<Tensor>& in) {
  const auto adapted = [&in](size_t y, size_t a, size_t b) {
    return in[y] + kScale * torch::matmul(torch::matmul(in[0], in[a].t()), in[b].t());
  };
  return joined({adapted(1, 3, 5), adapted(2, 4, 6)});
}

std::vector<Tensor> inputs(torch::Dtype dtype) {
  return {random_tensor({2, 5, 24}, dtype, 1),    random_tensor({2, 5, 16}, dtype, 2),
          random_tensor({2, 5, 8}, dtype, 3),     random_tensor({3, 24}, dtype, 4) * 0.2,
          random_tensor({3, 24}, dtype, 5) * 0.2, random_tensor({16, 3}, dtype, 6) * 0.2,
          random_tensor({8, 3}, dtype, 7) * 0.2};
}

TEST(AddLowRank, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    // The product with A is rounded once more than in the other operators.
    expect_op_matches("add_low_rank", by_operator, by_hand, inputs(dtype), 3.0);
  }
}

TEST(AddLowRank, WideFactorsGetWideGradients) {
  const std::vector<Tensor> in = inputs(torch::kBFloat16);
  std::vector<Tensor> factors;
  for (size_t i = 3; i < 7; ++i) factors.push_back(leaf(in[i], torch::kFloat32));
  const auto run = [&] {
    add_low_rank(in[0], {in[1].clone(), in[2].clone()},
                 {{factors[0], factors[2]}, {factors[1], factors[3]}}, kScale)[0]
        .sum()
        .backward();
  };
  run();
  const Tensor once = factors[0].grad().clone();
  ASSERT_EQ(once.scalar_type(), torch::kFloat32);
  const Tensor du = kScale * torch::matmul(torch::ones({10, 16}, torch::kFloat64),
                                           in[5].cpu().to(torch::kFloat64));
  expect_close("a", once.cpu(),
               torch::matmul(du.t(), in[0].cpu().to(torch::kFloat64).view({10, 24})),
               3e5);  // float32's tolerance, but the factors above are rounded to bfloat16
  run();
  EXPECT_LE(relative_error(factors[0].grad(), 2 * once.to(torch::kFloat64)), 1e-6);
  EXPECT_EQ(factors[3].grad().abs().max().item<double>(), 0.0) << "its output was not used";
}

TEST(AddLowRank, AddsInPlaceAndKeepsOnlyItsInput) {
  const std::vector<Tensor> in = inputs(torch::kFloat32);
  const Tensor a = leaf(in[3]), b = leaf(in[5]);
  Tensor y = in[1].clone();
  const void* storage = y.data_ptr();
  const Tensor sum = add_low_rank(in[0], {y}, {{a, b}}, kScale)[0];
  EXPECT_EQ(sum.data_ptr(), storage);
  const torch::NoGradGuard no_grad;
  const Tensor again = add_low_rank(in[0], {in[1].clone()}, {{a, b}}, kScale)[0];
  EXPECT_FALSE(again.requires_grad());
  EXPECT_TRUE(torch::equal(again, sum));
}

// [10], true for rows 0 to 3, 6 and 9.
Tensor silent_rows() {
  return torch::tensor({1, 1, 1, 1, 0, 0, 1, 0, 0, 1}).to(torch::kBool).to(test_device());
}

// Rows of the product are left out, as peft leaves them out.
Tensor by_hand_with_silent_rows(const std::vector<Tensor>& in) {
  const Tensor acting = (~silent_rows()).nonzero().flatten();
  const Tensor x = in[0].view({10, 24}).index_select(0, acting);
  const auto adapted = [&](size_t y, size_t a, size_t b) {
    const Tensor product = kScale * torch::matmul(torch::matmul(x, in[a].t()), in[b].t());
    return in[y].view({10, -1}).index_add(0, acting, product);
  };
  return joined({adapted(1, 3, 5), adapted(2, 4, 6)});
}

TEST(AddLowRank, SilentRowsStayAndHaveNoGradient) {
  const auto with_silent_rows = [](const std::vector<Tensor>& in) {
    return joined(add_low_rank(in[0], {in[1].clone(), in[2].clone()},
                               {{in[3], in[5]}, {in[4], in[6]}}, kScale, {}, silent_rows()));
  };
  for (const auto dtype : kDtypes) {
    expect_op_matches("silent rows", with_silent_rows, by_hand_with_silent_rows, inputs(dtype),
                      3.0);
  }
  const std::vector<Tensor> in = inputs(torch::kBFloat16);
  const Tensor found =
      add_low_rank(in[0], {in[1].clone()}, {{in[3], in[5]}}, kScale, {}, silent_rows())[0];
  const Tensor before = in[1].view({10, 16}), after = found.view({10, 16});
  EXPECT_TRUE(torch::equal(after.index({silent_rows()}), before.index({silent_rows()})));
  EXPECT_FALSE(torch::equal(after.index({~silent_rows()}), before.index({~silent_rows()})));
}

TEST(AddLowRank, AllRowsMayBeSilentOrNone) {
  const std::vector<Tensor> in = inputs(torch::kFloat32);
  const auto run = [&in](const Tensor& silent) {
    const Tensor x = leaf(in[0]), a = leaf(in[3]), b = leaf(in[5]);
    const Tensor y = add_low_rank(x, {in[1].clone()}, {{a, b}}, kScale, {0.3, 5}, silent)[0];
    y.square().sum().backward();
    return std::vector<Tensor>{y.detach(), x.grad(), a.grad(), b.grad()};
  };
  const Tensor all = torch::ones({10}, torch::TensorOptions(torch::kBool).device(test_device()));
  const std::vector<Tensor> none = run(~all), plain = run({});
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(torch::equal(none[i], plain[i])) << i;
  const std::vector<Tensor> silent = run(all);
  EXPECT_TRUE(torch::equal(silent[0], in[1]));
  for (size_t i = 1; i < silent.size(); ++i) {
    ASSERT_TRUE(silent[i].defined()) << i;
    EXPECT_EQ(silent[i].abs().max().item<double>(), 0.0) << i;
  }
}

TEST(AddLowRank, InputThatNeedsNoGradientGetsNone) {
  const std::vector<Tensor> in = inputs(torch::kFloat32);
  const Tensor a = leaf(in[3]), b = leaf(in[5]);
  add_low_rank(in[0], {in[1].clone()}, {{a, b}}, kScale)[0].sum().backward();
  EXPECT_TRUE(a.grad().defined());
  EXPECT_FALSE(in[0].grad().defined());
}

// x, a0, a1, b0, b1 of adapters on the first and the last of three frozen linears, the second of
// which has a bias.
std::vector<Tensor> adapted_inputs(torch::Dtype dtype) {
  return {random_tensor({2, 5, 24}, dtype, 1), random_tensor({3, 24}, dtype, 4) * 0.2,
          random_tensor({3, 24}, dtype, 5) * 0.2, random_tensor({16, 3}, dtype, 6) * 0.2,
          random_tensor({8, 3}, dtype, 7) * 0.2};
}

std::vector<LinearOperands> frozen_operands(torch::Dtype dtype) {
  return {{random_tensor({16, 24}, dtype, 11) * 0.2, {}},
          {random_tensor({7, 24}, dtype, 12) * 0.2, random_tensor({7}, dtype, 13)},
          {random_tensor({8, 24}, dtype, 14) * 0.2, {}}};
}

TEST(AdaptedLinears, MatchFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    const std::vector<LinearOperands> linears = frozen_operands(dtype);
    expect_op_matches(
        "adapted_linears",
        [&](const auto& in) {
          return joined(
              adapted_linears(in[0], linears, {{0, {in[1], in[3]}}, {2, {in[2], in[4]}}}, kScale));
        },
        [&](const auto& in) {
          const auto base = [&](size_t i) {
            const Tensor y = torch::matmul(in[0], linears[i].weight.to(in[0].scalar_type()).t());
            return linears[i].bias.defined() ? y + linears[i].bias.to(y.scalar_type()) : y;
          };
          const auto added = [&](size_t a, size_t b) {
            return kScale * torch::matmul(torch::matmul(in[0], in[a].t()), in[b].t());
          };
          return joined({base(0) + added(1, 3), base(1), base(2) + added(2, 4)});
        },
        adapted_inputs(dtype), 3.0);
  }
}

// With dropout and silent rows as without, and with outputs that nobody uses.
TEST(AdaptedLinears, AreFrozenLinearsAndWhatIsAddedToThem) {
  const auto dtype = torch::kFloat32;
  const std::vector<LinearOperands> linears = frozen_operands(dtype);
  for (const Dropout& dropout : {Dropout{}, Dropout{0.3, 5}}) {
    for (const bool uses_first : {true, false}) {
      std::vector<std::vector<Tensor>> found;
      for (const bool together : {true, false}) {
        std::vector<Tensor> in = adapted_inputs(dtype);
        for (Tensor& tensor : in) tensor = leaf(tensor);
        const LowRankFactors first = {in[1], in[3]}, last = {in[2], in[4]};
        std::vector<Tensor> y;
        if (together) {
          y = adapted_linears(in[0], linears, {{0, first}, {2, last}}, kScale, dropout,
                              silent_rows());
        } else {
          y = ops::linears(in[0], linears);
          const std::vector<Tensor> sums =
              add_low_rank(in[0], {y[0], y[2]}, {first, last}, kScale, dropout, silent_rows());
          y = {sums[0], y[1], sums[1]};
        }
        Tensor loss = y[1].square().sum() + y[2].square().sum();
        if (uses_first) loss = loss + y[0].square().sum();
        loss.backward();
        std::vector<Tensor> values = {y[0].detach(), y[1].detach(), y[2].detach()};
        for (const Tensor& tensor : in) values.push_back(tensor.grad());
        found.push_back(values);
      }
      for (size_t i = 0; i < found[0].size(); ++i)
        expect_close("value " + std::to_string(i), found[0][i], found[1][i].to(torch::kFloat64));
    }
  }
}

TEST(AdaptedLinears, RefuseFactorsThatDoNotFitAndTrainedOperands) {
  const std::vector<Tensor> in = adapted_inputs(torch::kFloat32);
  std::vector<LinearOperands> linears = frozen_operands(torch::kFloat32);
  const auto refusal = [&]() -> std::string {
    try {
      adapted_linears(in[0], linears, {{1, {in[1], in[3]}}}, kScale);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return {};
  };
  EXPECT_NE(refusal().find("b must have 7 rows, as its linear"), std::string::npos) << refusal();
  linears[1] = {leaf(linears[1].weight), {}};
  EXPECT_NE(refusal().find("no operand of a linear may require"), std::string::npos) << refusal();
}

TEST(Dropout, KeepsTheExpectationAndTheScale) {
  const Dropout dropout{0.05, 7};
  for (const auto dtype : kDtypes) {
    const Tensor ones =
        torch::ones({1000, 1001}, torch::TensorOptions(dtype).device(test_device()));
    const Tensor kept = zero_dropped(ones, dropout).to(torch::kFloat64);
    EXPECT_TRUE(((kept == 0) | (kept == 1)).all().item<bool>());
    // 1e6 draws: the standard deviation of their mean is 2.2e-4; this is five of them.
    EXPECT_NEAR(kept.mean().item<double>(), 0.95, 1.1e-3);
    EXPECT_NEAR(kept.mean().item<double>() * kept_scale(dropout), 1.0, 1.2e-3);
    // Neighbors are dropped independently of each other: 0.05 of those behind a dropped one.
    const Tensor flat = kept.flatten();
    for (const int64_t distance : {1, 2, 3, 4, 1001}) {
      const Tensor behind_dropped =
          flat.slice(0, distance).masked_select(flat.slice(0, 0, flat.numel() - distance) == 0);
      EXPECT_NEAR(behind_dropped.mean().item<double>(), 0.95, 5e-3) << distance;
    }
  }
}

TEST(Dropout, IsAFunctionOfTheSeed) {
  const Tensor x = random_tensor({64, 33}, torch::kBFloat16, 1);
  EXPECT_TRUE(torch::equal(zero_dropped(x, {0.3, 5}), zero_dropped(x, {0.3, 5})));
  EXPECT_FALSE(torch::equal(zero_dropped(x, {0.3, 5}), zero_dropped(x, {0.3, 6})));
  EXPECT_TRUE(zero_dropped(x, {0.0, 5}).is_same(x));
  EXPECT_EQ(kept_scale({0.0, 5}), 1.0);
}

TEST(Dropout, IsTheSameOnEveryDevice) {
  for (const auto dtype : kDtypes) {
    const Tensor x = random_tensor({31, 45}, dtype, 1), there = x.to(test_device());
    const Tensor strided = there.t();
    EXPECT_TRUE(torch::equal(zero_dropped(there, {0.3, 5}).cpu(), zero_dropped(x.cpu(), {0.3, 5})));
    EXPECT_TRUE(
        torch::equal(zero_dropped(strided, {0.3, 5}).cpu(), zero_dropped(x.cpu().t(), {0.3, 5})));
  }
}

TEST(Dropout, TheBackwardPassDropsWhatTheForwardPassDropped) {
  const Dropout dropout{0.4, 11};
  const std::vector<Tensor> in = inputs(torch::kFloat64);
  const Tensor x = leaf(in[0]), a = leaf(in[3]), b = leaf(in[5]);
  add_low_rank(x, {in[1].clone()}, {{a, b}}, kScale, dropout)[0].sum().backward();

  const Tensor mask = (zero_dropped(torch::ones_like(x), dropout) * kept_scale(dropout)).detach();
  const Tensor x2 = leaf(in[0]), a2 = leaf(in[3]), b2 = leaf(in[5]);
  (kScale * torch::matmul(torch::matmul(x2 * mask, a2.t()), b2.t())).sum().backward();
  EXPECT_LE(relative_error(x.grad(), x2.grad()), 1e-12);
  EXPECT_LE(relative_error(a.grad(), a2.grad()), 1e-12);
  EXPECT_LE(relative_error(b.grad(), b2.grad()), 1e-12);
}

TEST(AddLowRank, WrongShapesAreRefused) {
  try {
    add_low_rank(torch::zeros({2, 8}), {torch::zeros({2, 4})},
                 {{torch::zeros({3, 7}), torch::zeros({4, 3})}}, 1.0);
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "add_low_rank: a must be float32 [3, 8] on cpu, got float32 [3, 7] on cpu");
  }
  const auto refusal_of = [](const Tensor& silent) -> std::string {
    try {
      add_low_rank(torch::zeros({2, 8}), {torch::zeros({2, 4})},
                   {{torch::zeros({3, 8}), torch::zeros({4, 3})}}, 1.0, {}, silent);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no exception";
  };
  EXPECT_EQ(refusal_of(torch::zeros({3}, torch::kBool)),
            "add_low_rank: silent must be bool [2] beside x, got Bool [3] on cpu");
  EXPECT_EQ(refusal_of(torch::zeros({2})),
            "add_low_rank: silent must be bool [2] beside x, got float32 [2] on cpu");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
