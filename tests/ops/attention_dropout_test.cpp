// Dropout of attention's probabilities against torch's own operators. Which ones a call drops is
// seen from outside: with equal scores and an identity for values, the output is the matrix of
// probabilities.
#include <cmath>
#include <limits>
#include <stdexcept>

#include "ops/op_test_support.h"
#include "sftbench/ops/attention.h"
#include "sftbench/ops/plain.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

struct Case {
  int64_t batch, length, heads, kv_heads, head_dim, window;
  std::vector<int64_t> packed;
};

using Attention = decltype(&causal_attention);

Tensor visible_keys(const Case& c) {
  const Tensor i = torch::arange(c.length).unsqueeze(1), j = torch::arange(c.length).unsqueeze(0);
  Tensor visible = j <= i;
  if (c.window > 0) visible = visible & (i - j < c.window);
  std::vector<int64_t> sequences;
  for (size_t s = 0; s < c.packed.size(); ++s) sequences.insert(sequences.end(), c.packed[s], s);
  if (!sequences.empty()) {
    const Tensor sequence = torch::tensor(sequences);
    visible = visible & (sequence.unsqueeze(0) == sequence.unsqueeze(1));
  }
  return visible.to(test_device());
}

// [B, H, S, S], float64: what each visible probability is multiplied with; 0 elsewhere.
Tensor factors(Attention attention, const Case& c, torch::Dtype dtype, const Dropout& dropout) {
  const Tensor q = torch::zeros({c.batch, c.length, c.heads, c.length}, dtype).to(test_device());
  const Tensor k = torch::zeros({c.batch, c.length, c.kv_heads, c.length}, dtype).to(test_device());
  const Tensor v = torch::eye(c.length).to(test_device(), dtype).view({1, c.length, 1, c.length});
  const PackedSequences packed = packed_sequences(c.packed, test_device());
  const Tensor values = v.expand(k.sizes()).contiguous();
  const Tensor output = attention(q, k, values, 1.0, c.window, packed, dropout, {});
  const Tensor visible = visible_keys(c);
  return output.transpose(1, 2).to(torch::kFloat64) * visible.sum(-1, /*keepdim=*/true) * visible;
}

// Hugging Face's eager attention, with the dropped probabilities given.
Tensor reference(const std::vector<Tensor>& in, const Case& c, double scale, const Tensor& kept) {
  const auto heads_first = [](const Tensor& x) { return x.transpose(1, 2); };
  const Tensor keys = heads_first(in[1]).repeat_interleave(c.heads / c.kv_heads, 1);
  const Tensor values = heads_first(in[2]).repeat_interleave(c.heads / c.kv_heads, 1);
  Tensor scores = torch::matmul(heads_first(in[0]), keys.transpose(2, 3)) * scale;
  scores = scores.masked_fill(~visible_keys(c), -std::numeric_limits<double>::infinity());
  return torch::matmul(torch::softmax(scores, -1) * kept, values).transpose(1, 2);
}

std::vector<Tensor> inputs(const Case& c, torch::Dtype dtype) {
  return {random_tensor({c.batch, c.length, c.heads, c.head_dim}, dtype, 1),
          random_tensor({c.batch, c.length, c.kv_heads, c.head_dim}, dtype, 2),
          random_tensor({c.batch, c.length, c.kv_heads, c.head_dim}, dtype, 3)};
}

const std::vector<Case> kCases = {{1, 1, 1, 1, 8, 0, {}},
                                  {2, 70, 4, 2, 20, 0, {}},
                                  {1, 150, 2, 1, 64, 7, {}},
                                  {1, 131, 3, 3, 33, 65, {}},
                                  {1, 90, 4, 2, 16, 0, {13, 76, 1}}};

TEST(AttentionDropout, MatchesFloat64WithTheSameKeysDroppedForwardAndBackward) {
  if (!test_device().is_cpu())
    GTEST_SKIP() << "on GPUs each shape may take a kernel that draws others";
  const Dropout dropout = {0.3, 5};
  for (const Attention attention : {&causal_attention, &plain::causal_attention}) {
    for (const auto dtype : kDtypes) {
      for (const Case& c : kCases) {
        // What rounding made of 1 / 0.7 is not the dropout's.
        const Tensor dropped = factors(attention, c, dtype, dropout) < 0.5;
        const Tensor visible = visible_keys(c);
        const double scale_kept = kept_scale(dropout);
        const Tensor kept = (~dropped & visible).to(torch::kFloat64) * scale_kept;
        const PackedSequences packed = packed_sequences(c.packed, test_device());
        // As the tests of both forms without dropout (attention_test.cpp, plain_test.cpp), times
        // the factor.
        const bool narrow = dtype == torch::kBFloat16 || dtype == torch::kFloat16;
        const double slack = attention == &plain::causal_attention && narrow ? 6.0 : 2.0;
        expect_op_matches(
            "dropout S=" + std::to_string(c.length) + " window=" + std::to_string(c.window),
            [&](const auto& in) {
              return attention(in[0], in[1], in[2], 0.25, c.window, packed, dropout, {});
            },
            [&](const auto& in) { return reference(in, c, 0.25, kept); }, inputs(c, dtype),
            slack * scale_kept);
      }
    }
  }
}

// 1 / (1 - p) with p in steps of 2^-16, or 0; as many dropped as p says, neighbors independently.
TEST(AttentionDropout, DropsAsOftenAsAskedAndIndependently) {
  const Case c = {2, 130, 8, 4, 130, 0, {}};
  for (const double p : {0.1, 0.5}) {
    const Dropout dropout = {p, 42};
    const Tensor kept = factors(causal_attention, c, torch::kFloat32, dropout);
    const double scale = kept_scale(dropout);
    EXPECT_NEAR(scale, 1.0 / (1.0 - p), 1e-4);
    const Tensor visible = visible_keys(c).expand_as(kept);
    const Tensor seen = kept.masked_select(visible);
    EXPECT_TRUE(((seen == 0) | ((seen - scale).abs() < 1e-5)).all().item<bool>());
    const auto count = static_cast<double>(seen.numel());
    // Five standard deviations of a mean of `count` independent draws.
    EXPECT_NEAR((seen == 0).to(torch::kFloat64).mean().item<double>(), p,
                5 * std::sqrt(p * (1 - p) / count));
    EXPECT_NEAR(seen.var().item<double>(), p / (1 - p), 5 * (p / (1 - p)) / std::sqrt(count) * 3);
    const Tensor deviation = (kept - 1.0) * visible;
    for (int64_t dim = 0; dim < 4; ++dim) {
      const Tensor first = deviation.slice(dim, 0, -1), second = deviation.slice(dim, 1);
      const double pairs = static_cast<double>(
          (visible.slice(dim, 0, -1) & visible.slice(dim, 1)).sum().item<int64_t>());
      EXPECT_LE(std::abs((first * second).sum().item<double>() / pairs),
                5 * p / (1 - p) / std::sqrt(pairs))
          << "neighbours in dimension " << dim;
    }
  }
}

// Kernels of every dtype, tiles of stock operators (float64) and the eager form: on CPUs the same
// keys. On GPUs the library's attention draws its own.
TEST(AttentionDropout, EveryFormDropsTheSameKeys) {
  if (!test_device().is_cpu()) GTEST_SKIP() << "the library's attention draws its own on GPUs";
  const Dropout dropout = {0.25, 7};
  for (const Case& c : kCases) {
    const Tensor expected = factors(causal_attention, c, torch::kFloat64, dropout) > 0;
    for (const auto dtype : kDtypes) {
      EXPECT_TRUE((factors(causal_attention, c, dtype, dropout) > 0).equal(expected));
      EXPECT_TRUE((factors(plain::causal_attention, c, dtype, dropout) > 0).equal(expected));
    }
  }
}

TEST(AttentionDropout, IsAFunctionOfItsSeed) {
  const Case c = {1, 80, 2, 1, 16, 0, {}};
  for (const auto dtype : kDtypes) {
    const auto in = inputs(c, dtype);
    const auto output = [&](const Dropout& dropout) {
      return causal_attention(in[0], in[1], in[2], 0.25, 0, {}, dropout);
    };
    output({});  // the first product of a process may run on another number of threads
    EXPECT_TRUE(output({0.2, 1}).equal(output({0.2, 1})));
    EXPECT_FALSE(output({0.2, 1}).equal(output({0.2, 2})));
    EXPECT_TRUE(output({0.0, 1}).equal(output({})));
  }
  EXPECT_NE(derived_seed(1, 2), derived_seed(2, 1));
}

TEST(AttentionDropout, AProbabilityThatIsNoneIsRefused) {
  const Tensor q = torch::zeros({1, 4, 2, 8});
  for (const Attention attention : {&causal_attention, &plain::causal_attention}) {
    for (const double p : {1.0, -0.1, std::nan("")}) {
      try {
        attention(q, q, q, 1.0, 0, {}, {p, 0}, {});
        ADD_FAILURE() << "no exception";
      } catch (const std::invalid_argument& error) {
        EXPECT_EQ(error.what(), std::string(attention == &causal_attention ? "" : "plain::") +
                                    "causal_attention: a probability in [0, 1), got " +
                                    std::to_string(p));
      }
    }
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
