#include "ops/op_test_support.h"
#include "sftbench/ops/attention.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

// eager_attention_forward of Hugging Face's GptOss: the sink is a column of scores that is dropped
// after the softmax. `offsets`: sequences of a packed row.
Tensor reference(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& sinks,
                 double scale, int64_t window, const std::vector<int64_t>& offsets) {
  const int64_t S = q.size(1), heads = q.size(2), repeats = heads / k.size(2);
  const auto by_head = [](const Tensor& x) { return x.transpose(1, 2); };
  const Tensor keys = by_head(k).repeat_interleave(repeats, 1);
  const Tensor values = by_head(v).repeat_interleave(repeats, 1);
  const Tensor place = torch::arange(S);
  const Tensor distance = place.unsqueeze(1) - place.unsqueeze(0);
  Tensor visible = distance >= 0;
  if (window > 0) visible = visible & (distance < window);
  if (!offsets.empty()) {
    const Tensor sequence =
        torch::bucketize(place, torch::tensor(offsets), /*out_int32=*/false, /*right=*/true);
    visible = visible & (sequence.unsqueeze(1) == sequence.unsqueeze(0));
  }
  const Tensor scores = (by_head(q).matmul(keys.transpose(2, 3)) * scale)
                            .masked_fill(~visible, -std::numeric_limits<double>::infinity());
  const Tensor column = sinks.view({1, -1, 1, 1}).expand({q.size(0), -1, S, 1});
  const Tensor probabilities = torch::softmax(torch::cat({scores, column}, -1), -1);
  return probabilities.slice(-1, 0, S).matmul(values).transpose(1, 2);
}

struct Case {
  int64_t B, S, heads, key_value_heads, D, window;
  std::vector<int64_t> lengths;
};

TEST(SinkAttention, MatchesFloat64ForwardAndBackward) {
  const std::vector<Case> cases = {
      {1, 1, 1, 1, 8, 0, {}},    {2, 37, 4, 2, 16, 0, {}},        {2, 70, 3, 1, 24, 5, {}},
      {1, 130, 2, 2, 64, 0, {}}, {1, 45, 4, 2, 8, 0, {7, 30, 8}}, {1, 45, 2, 1, 8, 6, {7, 30, 8}}};
  for (const auto dtype : kDtypes) {
    for (const Case& c : cases) {
      const PackedSequences packed = packed_sequences(c.lengths, test_device());
      const double scale = 0.3;
      expect_op_matches(
          "sink_attention",
          [&](const auto& in) {
            return causal_attention(in[0], in[1], in[2], scale, c.window, packed, {}, {{}, in[3]});
          },
          [&](const auto& in) {
            return reference(in[0], in[1], in[2], in[3], scale, c.window, packed.offsets);
          },
          {random_tensor({c.B, c.S, c.heads, c.D}, dtype, 1),
           random_tensor({c.B, c.S, c.key_value_heads, c.D}, dtype, 2),
           random_tensor({c.B, c.S, c.key_value_heads, c.D}, dtype, 3),
           random_tensor({c.heads}, dtype, 4)},
          /*slack=*/4);
    }
  }
}

TEST(SinkAttention, RefusesSinksOfAnotherNumber) {
  const Tensor q = random_tensor({1, 3, 4, 8}, torch::kFloat32, 1);
  EXPECT_THROW(
      causal_attention(q, q, q, 1.0, 0, {}, {}, {{}, random_tensor({3}, torch::kFloat32, 2)}),
      std::invalid_argument);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
