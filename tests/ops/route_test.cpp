#include "sftbench/ops/route.h"

#include <algorithm>
#include <map>
#include <set>

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

// Different experts for each token, as top-k gives them.
Tensor random_choices(int64_t tokens, int64_t choices, int64_t experts, uint64_t seed) {
  const Tensor logits = random_tensor({tokens, experts}, torch::kFloat64, seed);
  return std::get<1>(logits.topk(choices, -1));
}

struct Case {
  int64_t tokens, choices, experts, width;
};

const std::vector<Case> kCases = {{1, 1, 1, 1},     {5, 2, 4, 17},   {33, 4, 4, 40},
                                  {64, 8, 32, 96},  {700, 2, 8, 33}, {3, 1, 9, 16},
                                  {300, 4, 256, 8}, {50, 2, 300, 8}};

TEST(Route, SortsChoicesByExpertAndTokensInTheirOrder) {
  for (const Case& c : kCases) {
    const Tensor experts = random_choices(c.tokens, c.choices, c.experts, 1).cpu();
    const Routes routes = sort_by_expert(experts.to(test_device()), c.experts);
    std::map<int64_t, std::vector<int64_t>> expected;  // tokens of each expert
    for (int64_t t = 0; t < c.tokens; ++t) {
      for (int64_t j = 0; j < c.choices; ++j) expected[experts[t][j].item<int64_t>()].push_back(t);
    }
    ASSERT_EQ(static_cast<int64_t>(routes.offsets.size()), c.experts + 1);
    EXPECT_EQ(routes.offsets.front(), 0);
    EXPECT_EQ(routes.offsets.back(), c.tokens * c.choices);
    const Tensor tokens = routes.tokens.cpu(), positions = routes.positions.cpu();
    for (int64_t e = 0; e < c.experts; ++e) {
      std::vector<int64_t> found;
      for (int64_t p = routes.offsets[e]; p < routes.offsets[e + 1]; ++p)
        found.push_back(tokens[p].item<int64_t>());
      EXPECT_EQ(found, expected[e]) << e;
    }
    std::set<int64_t> taken;
    for (int64_t t = 0; t < c.tokens; ++t) {
      for (int64_t j = 0; j < c.choices; ++j) {
        const int64_t p = positions[t][j].item<int64_t>(), e = experts[t][j].item<int64_t>();
        EXPECT_TRUE(taken.insert(p).second);
        EXPECT_EQ(tokens[p].item<int64_t>(), t);
        EXPECT_TRUE(routes.offsets[e] <= p && p < routes.offsets[e + 1]);
      }
    }
  }
}

TEST(Route, EvenRoutesAreSharesWhateverIsChosen) {
  const Tensor all_the_same =
      torch::zeros({5, 2}, torch::TensorOptions(torch::kInt64).device(test_device()));
  {
    const EvenRoutes even;
    EXPECT_EQ(sort_by_expert(all_the_same, 4).offsets, (std::vector<int64_t>{0, 2, 5, 7, 10}));
  }
  EXPECT_EQ(sort_by_expert(all_the_same, 4).offsets, (std::vector<int64_t>{0, 10, 10, 10, 10}));
}

TEST(Route, NoTokensHaveNoRows) {
  const auto options = torch::TensorOptions(torch::kInt64).device(test_device());
  const Routes routes = sort_by_expert(torch::empty({0, 2}, options), 3);
  EXPECT_EQ(routes.offsets, (std::vector<int64_t>{0, 0, 0, 0}));
  for (const auto dtype : kDtypes) {
    const Tensor x = leaf(random_tensor({0, 5}, dtype, 1));
    const Tensor weights = leaf(random_tensor({0, 2}, dtype, 2));
    const Tensor y = combine_rows(gather_rows(x, routes), weights, routes);
    EXPECT_EQ(y.sizes(), x.sizes());
    y.sum().backward();
    EXPECT_EQ(x.grad().sizes(), x.sizes());
  }
}

TEST(Route, GatheredRowsMatchFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      const Routes routes =
          sort_by_expert(random_choices(c.tokens, c.choices, c.experts, 1), c.experts);
      expect_op_matches(
          "gather_rows", [&](const auto& in) { return gather_rows(in[0], routes); },
          [&](const auto& in) { return in[0].index({routes.tokens}); },
          {random_tensor({c.tokens, c.width}, dtype, 2)});
    }
  }
}

TEST(Route, CombinedRowsMatchFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      const Routes routes =
          sort_by_expert(random_choices(c.tokens, c.choices, c.experts, 1), c.experts);
      expect_op_matches(
          "combine_rows", [&](const auto& in) { return combine_rows(in[0], in[1], routes); },
          [&](const auto& in) {
            return (in[0].index({routes.positions}) * in[1].unsqueeze(-1)).sum(1);
          },
          {random_tensor({c.tokens * c.choices, c.width}, dtype, 2),
           random_tensor({c.tokens, c.choices}, dtype, 3)});
    }
  }
}

TEST(Route, WeightsMayBeFloat32BesideNarrowerRows) {
  const Routes routes = sort_by_expert(random_choices(9, 2, 4, 1), 4);
  for (const auto dtype : {torch::kBFloat16, torch::kFloat16}) {
    const Tensor y = leaf(random_tensor({18, 20}, dtype, 2));
    const Tensor weights = leaf(random_tensor({9, 2}, torch::kFloat32, 3));
    const Tensor out = combine_rows(y, weights, routes);
    const Tensor upstream = random_tensor({9, 20}, dtype, 4);
    out.backward(upstream);
    EXPECT_EQ(weights.grad().scalar_type(), torch::kFloat32);
    const Tensor rows = y.detach().to(torch::kFloat64).index({routes.positions});
    expect_close("output", out, (rows * weights.detach().unsqueeze(-1)).sum(1));
    expect_close("weights", weights.grad(),
                 (rows * upstream.to(torch::kFloat64).unsqueeze(1)).sum(-1));
  }
}

TEST(Route, MatchesForNonContiguousRows) {
  const Routes routes = sort_by_expert(random_choices(6, 2, 3, 1), 3);
  for (const auto dtype : kDtypes) {
    expect_op_matches(
        "routes transposed",
        [&](const auto& in) {
          return combine_rows(gather_rows(in[0].t(), routes), in[1].t(), routes);
        },
        [&](const auto& in) { return in[0].t() * in[1].t().sum(1, /*keepdim=*/true); },
        {random_tensor({10, 6}, dtype, 1), random_tensor({2, 6}, dtype, 2)}, /*slack=*/2.0);
  }
}

std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no exception";
}

TEST(Route, WrongChoicesAreRefused) {
  const auto ids = [](std::vector<int64_t> values) {
    return torch::tensor(values, torch::kInt64).view({-1, 2});
  };
  EXPECT_EQ(error_of([&] {
              sort_by_expert(ids({0, 1, 4, 2}), 4);
            }),
            "sort_by_expert: experts must be from 0 to 3, got 4");
  EXPECT_EQ(error_of([&] {
              sort_by_expert(ids({0, -1}), 4);
            }),
            "sort_by_expert: experts must be from 0 to 3, got -1");
  EXPECT_EQ(error_of([&] {
              sort_by_expert(ids({0, 0}), 0);
            }),
            "sort_by_expert: there must be an expert, got 0");
  EXPECT_EQ(error_of([&] {
              sort_by_expert(torch::zeros({2, 2}), 4);
            }),
            "sort_by_expert: experts must be int64 [T, k] with k above 0, got float32 [2, 2] on "
            "cpu");
}

TEST(Route, WrongShapesAreRefused) {
  const Routes routes = sort_by_expert(torch::tensor({{0, 1}, {1, 2}, {0, 2}}, torch::kInt64), 3);
  EXPECT_EQ(error_of([&] {
              gather_rows(torch::zeros({4, 5}), routes);
            }),
            "gather_rows: x must be float32 [3, *] on cpu, got float32 [4, 5] on cpu");
  EXPECT_EQ(error_of([&] { gather_rows(torch::zeros({3}), routes); }),
            "gather_rows: x must be [T, H], got float32 [3] on cpu");
  EXPECT_EQ(error_of([&] {
              gather_rows(torch::zeros({3, 5}), {});
            }),
            "gather_rows: routes must be those of sort_by_expert on cpu, got positions an "
            "undefined tensor");
  EXPECT_EQ(error_of([&] {
              combine_rows(torch::zeros({3, 5}), torch::zeros({3, 2}), routes);
            }),
            "combine_rows: y must be float32 [6, *] on cpu, got float32 [3, 5] on cpu");
  EXPECT_EQ(error_of([&] {
              combine_rows(torch::zeros({6, 5}), torch::zeros({2, 3}), routes);
            }),
            "combine_rows: weights must be float32 [3, 2] on cpu, got float32 [2, 3] on cpu");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
