#include "sftbench/ops/state_space_scan.h"

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

// The recurrence, position by position. x [S, H, P], dt [S, H], b and c [S, H, N].
Tensor recurrence(const Tensor& x, const Tensor& dt, const Tensor& a, const Tensor& b,
                  const Tensor& c, const Tensor& d) {
  Tensor state = torch::zeros({x.size(1), b.size(2), x.size(2)}, x.options());
  std::vector<Tensor> y;
  for (int64_t t = 0; t < x.size(0); ++t) {
    const Tensor decay = torch::exp(dt[t] * a).view({-1, 1, 1});
    const Tensor fed = (dt[t].unsqueeze(-1) * b[t]).unsqueeze(-1) * x[t].unsqueeze(1);
    state = decay * state + fed;
    y.push_back((state * c[t].unsqueeze(-1)).sum(1) + d.unsqueeze(-1) * x[t]);
  }
  return torch::stack(y);
}

// Inputs as state_space_scan has them.
Tensor reference(const std::vector<Tensor>& in, const PackedSequences& packed = {}) {
  const int64_t heads = in[0].size(2), length = in[0].size(1);
  const Tensor b = in[3].repeat_interleave(heads / in[3].size(2), 2);
  const Tensor c = in[4].repeat_interleave(heads / in[4].size(2), 2);
  const std::vector<int64_t> ends =
      packed.empty() ? std::vector<int64_t>{0, length} : packed.offsets;
  std::vector<Tensor> rows;
  for (int64_t row = 0; row < in[0].size(0); ++row) {
    std::vector<Tensor> parts;
    for (size_t i = 0; i + 1 < ends.size(); ++i) {
      const auto part = [&](const Tensor& tensor) {
        return tensor[row].slice(0, ends[i], ends[i + 1]);
      };
      parts.push_back(recurrence(part(in[0]), part(in[1]), in[2], part(b), part(c), in[5]));
    }
    rows.push_back(torch::cat(parts));
  }
  return torch::stack(rows);
}

struct Case {
  int64_t batch, length, heads, dim, groups, state;
  std::vector<int64_t> lengths;
};

// One position; odd sizes; whole and partial chunks; groups of several heads; sequences shorter and
// longer than a chunk.
const std::vector<Case> kCases = {{1, 1, 1, 1, 1, 1, {}},
                                  {2, 7, 3, 5, 1, 3, {}},
                                  {1, 128, 4, 16, 2, 16, {}},
                                  {2, 300, 6, 20, 3, 9, {}},
                                  {1, 129, 2, 64, 1, 128, {}},
                                  {1, 260, 10, 8, 1, 24, {}},
                                  {1, 300, 4, 12, 2, 10, {1, 130, 7, 162}}};

// Step sizes and decay rates as trained models have them: positive steps, negative rates.
std::vector<Tensor> inputs(const Case& c, torch::Dtype dtype) {
  const auto positive = [&](const Tensor& tensor) {
    return at::softplus(tensor.to(torch::kFloat64) - 1).to(dtype);
  };
  return {random_tensor({c.batch, c.length, c.heads, c.dim}, dtype, 1),
          positive(random_tensor({c.batch, c.length, c.heads}, dtype, 2)),
          -positive(random_tensor({c.heads}, dtype, 3)),
          random_tensor({c.batch, c.length, c.groups, c.state}, dtype, 4),
          random_tensor({c.batch, c.length, c.groups, c.state}, dtype, 5),
          random_tensor({c.heads}, dtype, 6)};
}

Tensor scan(const std::vector<Tensor>& in, const PackedSequences& packed = {}) {
  return state_space_scan(in[0], in[1], in[2], in[3], in[4], in[5], packed);
}

TEST(StateSpaceScan, MatchesTheRecurrenceInFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      const PackedSequences packed = packed_sequences(c.lengths, test_device());
      expect_op_matches(
          "state_space_scan " + std::to_string(c.length),
          [&](const auto& in) { return scan(in, packed); },
          [&](const auto& in) { return reference(in, packed); }, inputs(c, dtype), /*slack=*/2.0);
    }
  }
}

TEST(StateSpaceScan, StepsAndRatesMayBeFloat32BesideNarrowerRows) {
  const Case c{1, 200, 4, 16, 1, 16, {}};
  for (const auto dtype : {torch::kBFloat16, torch::kFloat16}) {
    std::vector<Tensor> leaves, wide;
    const std::vector<Tensor> drawn = inputs(c, torch::kFloat32);
    for (size_t i = 0; i < drawn.size(); ++i) {
      const bool narrow = i == 0 || i == 3 || i == 4;
      leaves.push_back(leaf(drawn[i], narrow ? dtype : torch::kFloat32));
      wide.push_back(leaf(leaves.back(), torch::kFloat64));
    }
    const Tensor y = scan(leaves), expected = reference(wide);
    expect_close("output", y, expected);
    const Tensor upstream = random_tensor(y.sizes(), dtype, 9);
    y.backward(upstream);
    expected.backward(upstream.to(torch::kFloat64));
    for (size_t i = 0; i < leaves.size(); ++i) {
      const torch::Dtype own = leaves[i].scalar_type();
      EXPECT_EQ(leaves[i].grad().scalar_type(), own);
      // On GPUs operands of products are rounded to the rows' dtype.
      const double slack = test_device().is_cuda() ? tolerance(dtype) / tolerance(own) : 1;
      expect_close("gradient " + std::to_string(i), leaves[i].grad(), wide[i].grad(), 2 * slack);
    }
  }
}

TEST(StateSpaceScan, MatchesForSlicesOfTheConvolution) {
  const Case c{2, 150, 4, 8, 2, 6, {}};
  for (const auto dtype : kDtypes) {
    const std::vector<Tensor> in = inputs(c, dtype);
    const int64_t inner = c.heads * c.dim, states = c.groups * c.state;
    const auto with_slices = [&](const std::vector<Tensor>& from) {
      const auto parts = from[0].split_with_sizes({inner, states, states}, -1);
      return std::vector<Tensor>{parts[0].view({c.batch, c.length, c.heads, c.dim}),
                                 from[1],
                                 from[2],
                                 parts[1].view({c.batch, c.length, c.groups, c.state}),
                                 parts[2].view({c.batch, c.length, c.groups, c.state}),
                                 from[3]};
    };
    expect_op_matches(
        "state_space_scan of slices", [&](const auto& from) { return scan(with_slices(from)); },
        [&](const auto& from) { return reference(with_slices(from)); },
        {random_tensor({c.batch, c.length, inner + 2 * states}, dtype, 7), in[1], in[2], in[5]},
        /*slack=*/2.0);
  }
}

// Each position sees next to nothing of others, and the rates' gradients are next to 0.
TEST(StateSpaceScan, StrongDecaysLeaveNothingInfinite) {
  for (const auto dtype : kDtypes) {
    std::vector<Tensor> in = inputs({1, 200, 2, 8, 1, 8, {}}, dtype);
    const Tensor rates = leaf(in[2].fill_(-100.0));
    in.erase(in.begin() + 2);
    const auto with_rates = [](std::vector<Tensor> of, const Tensor& a) {
      of.insert(of.begin() + 2, a);
      return of;
    };
    expect_op_matches(
        "state_space_scan decaying", [&](const auto& of) { return scan(with_rates(of, rates)); },
        [&](const auto& of) {
          return reference(with_rates(of, rates.detach().to(torch::kFloat64)));
        },
        in, /*slack=*/2.0);
    EXPECT_TRUE(rates.grad().isfinite().all().item<bool>());
  }
}

TEST(StateSpaceScan, WithoutGradientsTheOutputIsTheSame) {
  const std::vector<Tensor> in = inputs({1, 300, 4, 16, 2, 16, {}}, torch::kFloat32);
  std::vector<Tensor> leaves;
  for (const Tensor& tensor : in) leaves.push_back(leaf(tensor));
  const torch::NoGradGuard no_grad;
  const Tensor y = scan(leaves);
  EXPECT_FALSE(y.requires_grad());
  const torch::AutoGradMode grad(true);
  EXPECT_TRUE(y.equal(scan(leaves)));
}

TEST(StateSpaceScan, SumsDoNotDependOnThreads) {
  const auto gradients = [](int threads) {
    const int before = at::get_num_threads();
    at::set_num_threads(threads);
    std::vector<Tensor> leaves;
    for (const Tensor& tensor : inputs({2, 300, 12, 8, 2, 16, {}}, torch::kFloat32))
      leaves.push_back(leaf(tensor));
    scan(leaves).sum().backward();
    at::set_num_threads(before);
    return leaves;
  };
  const std::vector<Tensor> one = gradients(1), two = gradients(2);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(one[i].grad().equal(two[i].grad())) << i;
}

TEST(StateSpaceScan, NoPositionsHaveNoOutput) {
  for (const auto dtype : kDtypes) {
    EXPECT_EQ(scan(inputs({1, 0, 2, 4, 1, 4, {}}, dtype)).sizes(),
              (std::vector<int64_t>{1, 0, 2, 4}));
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

TEST(StateSpaceScan, WrongShapesAreRefused) {
  const auto error_with = [](size_t input, const Tensor& tensor) {
    std::vector<Tensor> in = {torch::zeros({2, 5, 4, 8}), torch::zeros({2, 5, 4}),
                              torch::zeros({4}),          torch::zeros({2, 5, 2, 3}),
                              torch::zeros({2, 5, 2, 3}), torch::zeros({4})};
    in[input] = tensor;
    return error_of([&] { scan(in); });
  };
  const std::string op = "state_space_scan: ";
  EXPECT_EQ(error_with(0, torch::zeros({2, 5, 4})),
            op + "x must be [B, S, H, P] with H above 0, got float32 [2, 5, 4] on cpu");
  EXPECT_EQ(error_with(1, torch::zeros({2, 5, 3})),
            op + "dt must be float32 [2, 5, 4] on cpu, got float32 [2, 5, 3] on cpu");
  EXPECT_EQ(error_with(2, torch::zeros({5})),
            op + "a must be float32 [4] on cpu, got float32 [5] on cpu");
  EXPECT_EQ(error_with(3, torch::zeros({2, 4, 2, 3})),
            op + "b must be float32 [2, 5, *, *] on cpu, got float32 [2, 4, 2, 3] on cpu");
  EXPECT_EQ(error_with(3, torch::zeros({2, 5, 3, 3})),
            op + "the number of groups must divide the 4 heads, got 3");
  EXPECT_EQ(error_with(4, torch::zeros({2, 5, 2, 4})),
            op + "c must be float32 [2, 5, 2, 3] on cpu, got float32 [2, 5, 2, 4] on cpu");
  EXPECT_EQ(error_with(5, torch::zeros({4}, torch::kFloat64)),
            op + "d must be float32 [4] on cpu, got float64 [4] on cpu");
  EXPECT_EQ(
      error_of([] {
        scan(inputs({2, 5, 4, 8, 1, 3, {}}, torch::kFloat32),
             packed_sequences({2, 3}, torch::kCPU));
      }),
      op + "packed sequences of 5 positions must fill x's only row, got float32 [2, 5, 4, 8] on " +
          (test_device().is_cpu() ? "cpu" : "cuda:0"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
