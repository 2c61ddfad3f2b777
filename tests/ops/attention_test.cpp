#include "sftbench/ops/attention.h"

#include <cmath>
#include <fstream>
#include <limits>
#include <stdexcept>

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

struct Case {
  int64_t batch, length, heads, kv_heads, head_dim, window;
};

const std::vector<Case> kCases = {
    {1, 1, 1, 1, 8, 0},      {1, 2, 2, 1, 64, 0},     {2, 17, 4, 2, 16, 0},
    {1, 64, 9, 3, 64, 0},    {2, 65, 3, 3, 64, 0},    {1, 130, 6, 2, 20, 0},
    {1, 200, 2, 1, 33, 0},   {1, 300, 4, 1, 64, 0},   {1, 97, 4, 2, 128, 0},
    {2, 65, 4, 2, 64, 1},    {1, 150, 2, 2, 64, 7},   {1, 257, 2, 1, 64, 64},
    {1, 300, 3, 1, 32, 129}, {1, 40, 2, 1, 64, 1000}, {1, 1025, 3, 1, 64, 0},
    {1, 900, 2, 2, 64, 511}};

// eager_attention_forward of Hugging Face: repeat_kv, scores, mask, softmax, values.
Tensor reference(const Tensor& q, const Tensor& k, const Tensor& v, double scale, int64_t window,
                 double cap = 0) {
  const int64_t length = q.size(1), groups = q.size(2) / k.size(2);
  const auto heads_first = [](const Tensor& x) { return x.transpose(1, 2); };
  const Tensor keys = heads_first(k).repeat_interleave(groups, 1),
               values = heads_first(v).repeat_interleave(groups, 1);
  Tensor scores = torch::matmul(heads_first(q), keys.transpose(2, 3)) * scale;
  if (cap > 0) scores = torch::tanh(scores / cap) * cap;
  const Tensor position = torch::arange(length).to(q.device());
  const Tensor i = position.unsqueeze(1), j = position.unsqueeze(0);
  Tensor visible = j <= i;
  if (window > 0) visible = visible & (i - j < window);
  scores = scores.masked_fill(~visible, -std::numeric_limits<double>::infinity());
  return torch::matmul(torch::softmax(scores, -1), values).transpose(1, 2);
}

std::vector<Tensor> inputs(const Case& c, torch::Dtype dtype) {
  return {random_tensor({c.batch, c.length, c.heads, c.head_dim}, dtype, 1),
          random_tensor({c.batch, c.length, c.kv_heads, c.head_dim}, dtype, 2),
          random_tensor({c.batch, c.length, c.kv_heads, c.head_dim}, dtype, 3)};
}

std::string label(const Case& c) {
  return "attention S=" + std::to_string(c.length) + " H=" + std::to_string(c.heads) + "/" +
         std::to_string(c.kv_heads) + " D=" + std::to_string(c.head_dim) +
         " window=" + std::to_string(c.window);
}

TEST(CausalAttention, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      const double scale = 1.0 / std::sqrt(static_cast<double>(c.head_dim));
      // Rounded probabilities and score gradients meet in sums: twice a single rounding.
      expect_op_matches(
          label(c),
          [&](const auto& in) { return causal_attention(in[0], in[1], in[2], scale, c.window); },
          [&](const auto& in) { return reference(in[0], in[1], in[2], scale, c.window); },
          inputs(c, dtype), 2.0);
    }
  }
}

TEST(CausalAttention, MatchesForHeadsFirstViews) {
  const Case c{2, 70, 4, 2, 32, 0};
  for (const auto dtype : kDtypes) {
    const auto view = [](const Tensor& x) {
      return x.transpose(1, 2).contiguous().transpose(1, 2);
    };
    expect_op_matches(
        "heads first",
        [&](const auto& in) {
          return causal_attention(view(in[0]), view(in[1]), view(in[2]), 0.2);
        },
        [&](const auto& in) { return reference(in[0], in[1], in[2], 0.2, 0); }, inputs(c, dtype),
        2.0);
  }
}

// Each sequence on its own, one behind the other.
Tensor packed_reference(const std::vector<Tensor>& in, double scale, int64_t window,
                        const std::vector<int64_t>& lengths) {
  std::vector<Tensor> outputs;
  int64_t begin = 0;
  for (const int64_t length : lengths) {
    const auto sequence = [&](const Tensor& x) { return x.slice(1, begin, begin + length); };
    outputs.push_back(reference(sequence(in[0]), sequence(in[1]), sequence(in[2]), scale, window));
    begin += length;
  }
  return torch::cat(outputs, 1);
}

// The same with ALiBi and sinks, as Hugging Face's bloom adds the one and gpt_oss the other.
Tensor reference_with_terms(const std::vector<Tensor>& in, double scale, int64_t window,
                            const Tensor& slopes, const Tensor& sinks) {
  const int64_t length = in[0].size(1), heads = in[0].size(2), groups = heads / in[1].size(2);
  const Tensor keys = in[1].transpose(1, 2).repeat_interleave(groups, 1);
  const Tensor values = in[2].transpose(1, 2).repeat_interleave(groups, 1);
  Tensor scores = torch::matmul(in[0].transpose(1, 2), keys.transpose(2, 3)) * scale;
  const Tensor position = torch::arange(length).to(in[0].device());
  const Tensor i = position.unsqueeze(1), j = position.unsqueeze(0);
  // bloom's term is of the key alone, which a softmax does not see unless there is a sink.
  const Tensor distance = sinks.defined() ? j - i : j.expand({length, length});
  if (slopes.defined()) scores = scores + slopes.view({-1, 1, 1}) * distance;
  Tensor visible = j <= i;
  if (window > 0) visible = visible & (i - j < window);
  scores = scores.masked_fill(~visible, -std::numeric_limits<double>::infinity());
  if (!sinks.defined()) return torch::matmul(torch::softmax(scores, -1), values).transpose(1, 2);
  const Tensor column = sinks.view({1, -1, 1, 1}).expand({in[0].size(0), -1, length, 1});
  const Tensor p = torch::softmax(torch::cat({scores, column}, -1), -1).slice(-1, 0, length);
  return torch::matmul(p, values).transpose(1, 2);
}

Tensor alibi_slopes(int64_t heads) {
  return torch::pow(2.0, -8.0 * torch::arange(1, heads + 1).to(torch::kFloat64) / heads)
      .to(test_device());
}

TEST(CausalAttention, TermsOfScoresMatchFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    const auto wide = dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
    for (const Case& c : kCases) {
      if (c.length > 300) continue;
      const Tensor slopes = alibi_slopes(c.heads);
      std::vector<Tensor> drawn = inputs(c, dtype);
      drawn.push_back(random_tensor({c.heads}, dtype, 4));
      // Beside a sink the gradient of the only key's score is not 0, but a difference from the
      // rounded output's part.
      const double slack = 4.0;
      expect_op_matches(
          "sinks " + label(c),
          [&](const auto& in) {
            return causal_attention(in[0], in[1], in[2], 0.2, c.window, {}, {}, {{}, in[3]});
          },
          [&](const auto& in) { return reference_with_terms(in, 0.2, c.window, {}, in[3]); }, drawn,
          slack);
      expect_op_matches(
          "sinks and slopes " + label(c),
          [&](const auto& in) {
            return causal_attention(in[0], in[1], in[2], 0.2, c.window, {}, {},
                                    {slopes.to(wide), in[3]});
          },
          [&](const auto& in) { return reference_with_terms(in, 0.2, c.window, slopes, in[3]); },
          drawn, slack);
      drawn.pop_back();
      expect_op_matches(
          "slopes " + label(c),
          [&](const auto& in) {
            return causal_attention(in[0], in[1], in[2], 0.2, c.window, {}, {},
                                    {slopes.to(wide), {}});
          },
          [&](const auto& in) { return reference_with_terms(in, 0.2, c.window, slopes, {}); },
          drawn, 2.0);
    }
  }
}

TEST(CausalAttention, CapsOfScoresMatchFloat64ForwardAndBackward) {
  for (const double cap :
       {0.8, 50.0}) {  // most scores are beyond the first, and none beyond Gemma's
    ScoreTerms capped;
    capped.cap = cap;
    for (const auto dtype : kDtypes) {
      for (const Case& c : kCases) {
        if (c.length > 300) continue;
        expect_op_matches(
            "cap " + label(c),
            [&](const auto& in) {
              return causal_attention(in[0], in[1], in[2], 0.2, c.window, {}, {}, capped);
            },
            [&](const auto& in) { return reference(in[0], in[1], in[2], 0.2, c.window, cap); },
            inputs(c, dtype), 2.0);
      }
    }
  }
}

TEST(FullAttention, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      if (c.length > 300 || c.window > 0) continue;
      expect_op_matches(
          "full " + label(c),
          [&](const auto& in) { return full_attention(in[0], in[1], in[2], 0.2); },
          [&](const auto& in) {
            const int64_t times = c.heads / c.kv_heads;
            const auto by_head = [](const Tensor& x) { return x.transpose(1, 2); };
            const Tensor keys = by_head(in[1]).repeat_interleave(times, 1);
            const Tensor values = by_head(in[2]).repeat_interleave(times, 1);
            const Tensor scores = at::matmul(by_head(in[0]), keys.transpose(2, 3)) * 0.2;
            return at::matmul(torch::softmax(scores, -1), values).transpose(1, 2);
          },
          inputs(c, dtype), 2.0);
    }
  }
}

TEST(PackedAttention, TermsOfScoresMatchFloat64OfEachSequence) {
  const Case c{1, 200, 4, 2, 24, 0};
  const std::vector<int64_t> lengths = {70, 1, 129};
  const PackedSequences packed = packed_sequences(lengths, test_device());
  const Tensor slopes = alibi_slopes(c.heads);
  for (const auto dtype : kDtypes) {
    const auto wide = dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
    std::vector<Tensor> drawn = inputs(c, dtype);
    drawn.push_back(random_tensor({c.heads}, dtype, 4));
    expect_op_matches(
        "packed sinks and slopes",
        [&](const auto& in) {
          return causal_attention(in[0], in[1], in[2], 0.2, 0, packed, {},
                                  {slopes.to(wide), in[3]});
        },
        [&](const auto& in) {
          std::vector<Tensor> parts;
          for (size_t i = 0; i < lengths.size(); ++i) {
            const auto part = [&](const Tensor& x) {
              return x.slice(1, packed.offsets[i], packed.offsets[i + 1]);
            };
            parts.push_back(reference_with_terms({part(in[0]), part(in[1]), part(in[2])}, 0.2, 0,
                                                 slopes, in[3]));
          }
          return torch::cat(parts, 1);
        },
        drawn, 2.0);
  }
}

TEST(CausalAttention, WrongTermsOfScoresAreRefused) {
  const Tensor q = torch::zeros({1, 4, 2, 8});
  const auto error_with = [&](const ScoreTerms& terms) -> std::string {
    try {
      causal_attention(q, q, q, 1.0, 0, {}, {}, terms);
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "no exception";
  };
  EXPECT_EQ(error_with({torch::zeros({3}), {}}),
            "causal_attention: slopes must be float32 [2] on cpu, got float32 [3] on cpu");
  EXPECT_EQ(error_with({{}, torch::zeros({2}, torch::kFloat64)}),
            "causal_attention: sinks must be float32 [2] on cpu, got float64 [2] on cpu");
}

struct PackedCase {
  Case shape;
  std::vector<int64_t> lengths;
};

const std::vector<PackedCase> kPackedCases = {{{1, 11, 2, 1, 8, 0}, {11}},
                                              {{1, 130, 4, 2, 64, 0}, {1, 64, 65}},
                                              {{1, 300, 3, 1, 33, 0}, {40, 7, 150, 1, 102}},
                                              {{1, 200, 2, 2, 64, 9}, {5, 100, 95}}};

TEST(PackedAttention, MatchesFloat64OfEachSequenceForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const PackedCase& c : kPackedCases) {
      const PackedSequences packed = packed_sequences(c.lengths, test_device());
      expect_op_matches(
          "packed " + label(c.shape),
          [&](const auto& in) {
            return causal_attention(in[0], in[1], in[2], 0.2, c.shape.window, packed);
          },
          [&](const auto& in) { return packed_reference(in, 0.2, c.shape.window, c.lengths); },
          inputs(c.shape, dtype), 2.0);
    }
  }
}

TEST(PackedAttention, NoSequenceSeesAnother) {
  const Case c{1, 200, 2, 1, 64, 0};
  for (const auto dtype : kDtypes) {
    auto in = inputs(c, dtype);
    const PackedSequences packed = packed_sequences({77, 23, 100}, test_device());
    // The first product of a process may run on another number of threads than those to come, and
    // sum otherwise.
    causal_attention(in[0], in[1], in[2], 0.125, 0, packed);
    const Tensor before = causal_attention(in[0], in[1], in[2], 0.125, 0, packed).clone();
    for (Tensor& x : in) x.slice(1, 77, 100).fill_(1e4);
    const Tensor after = causal_attention(in[0], in[1], in[2], 0.125, 0, packed);
    EXPECT_TRUE(after.slice(1, 0, 77).equal(before.slice(1, 0, 77)));
    EXPECT_TRUE(after.slice(1, 100, 200).equal(before.slice(1, 100, 200)));
  }
}

TEST(PackedAttention, SequencesThatDoNotFillTheRowAreRefused) {
  const Tensor q = torch::zeros({1, 4, 2, 8});
  try {
    causal_attention(q, q, q, 1.0, 0, packed_sequences({2, 3}, torch::kCPU));
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "causal_attention: packed sequences of 5 positions must fill q's only row, got "
                 "float32 [1, 4, 2, 8] on cpu");
  }
  const Tensor rows = torch::zeros({2, 4, 2, 8});
  EXPECT_THROW(causal_attention(rows, rows, rows, 1.0, 0, packed_sequences({4}, torch::kCPU)),
               std::invalid_argument);
  EXPECT_THROW(packed_sequences({3, 0}, torch::kCPU), std::invalid_argument);
  EXPECT_TRUE(packed_sequences({}, torch::kCPU).empty());
}

TEST(CausalAttention, LargeScoresDoNotOverflow) {
  const Case c{1, 80, 2, 1, 64, 0};
  for (const auto dtype : kDtypes) {
    const auto in = inputs(c, dtype);
    const Tensor y = causal_attention(in[0] * 30, in[1] * 30, in[2], 1.0);
    EXPECT_TRUE(y.isfinite().all().item<bool>());
    // Position 0 sees itself only.
    EXPECT_TRUE(y[0][0][1].equal(in[2][0][0][0]));
  }
}

TEST(CausalAttention, NoPositionSeesALaterOne) {
  const Case c{1, 200, 2, 1, 64, 0};
  for (const auto dtype : kDtypes) {
    auto in = inputs(c, dtype);
    const Tensor before = causal_attention(in[0], in[1], in[2], 0.125).slice(1, 0, 77).clone();
    for (int i = 1; i < 3; ++i) in[i].slice(1, 77, 200).fill_(1e4);
    EXPECT_TRUE(causal_attention(in[0], in[1], in[2], 0.125).slice(1, 0, 77).equal(before));
  }
}

TEST(CausalAttention, SameInputGivesTheSameBits) {
  const Case c{2, 300, 4, 2, 64, 0};
  for (const auto dtype : kDtypes) {
    Tensor first;
    for (int repetition = 0; repetition < 3; ++repetition) {
      auto in = inputs(c, dtype);
      for (Tensor& x : in) x.requires_grad_();
      causal_attention(in[0], in[1], in[2], 0.125).sum().backward();
      const Tensor all =
          torch::cat({in[0].grad().flatten(), in[1].grad().flatten(), in[2].grad().flatten()});
      if (repetition == 0) first = all;
      EXPECT_TRUE(all.equal(first));
    }
  }
}

// Most bytes that this process has held in memory since the last reset.
class PeakMemory {
 public:
  static void reset() { std::ofstream("/proc/self/clear_refs") << "5"; }
  static int64_t bytes() {
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
      int64_t kib = 0;
      if (word == "VmHWM:" && status >> kib) return kib << 10;
    }
    throw std::runtime_error("no VmHWM in /proc/self/status");
  }
};

TEST(CausalAttention, NeverHoldsTheScoresOfAllHeads) {
  if (test_device() != torch::kCPU) GTEST_SKIP() << "host memory says nothing about a GPU";
  const Case c{1, 3072, 8, 8, 64, 0};
  auto in = inputs(c, torch::kFloat32);
  for (Tensor& x : in) x.requires_grad_();
  PeakMemory::reset();
  const int64_t before = PeakMemory::bytes();
  causal_attention(in[0], in[1], in[2], 0.125).sum().backward();
  const int64_t one_head_bytes = c.length * c.length * 4;
  const int64_t inputs_bytes = 3 * c.length * c.heads * c.head_dim * 4;
  // Output, its gradient, the inputs' gradients and what each thread works in.
  EXPECT_LT(PeakMemory::bytes() - before, 3 * inputs_bytes + one_head_bytes);
}

TEST(CausalAttention, WrongShapesAreRefused) {
  const Tensor q = torch::zeros({1, 4, 6, 8});
  try {
    causal_attention(q, torch::zeros({1, 4, 4, 8}), torch::zeros({1, 4, 4, 8}), 1.0);
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(
        error.what(),
        "causal_attention: the number of key/value heads must divide the 6 query heads, got 4");
  }
  EXPECT_THROW(causal_attention(q, torch::zeros({1, 5, 6, 8}), torch::zeros({1, 5, 6, 8}), 1.0),
               std::invalid_argument);
  EXPECT_THROW(causal_attention(q, q, q, 1.0, -1), std::invalid_argument);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
