// Attention in parts: keys come chunk by chunk, in any order, and the sums end as attention over
// all of them.
#include <algorithm>
#include <numeric>

#include "ops/op_test_support.h"
#include "sftbench/ops/attention.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Case {
  int64_t batch, heads, kv_heads, head_dim, window;
  std::vector<int64_t> sequences;  // lengths in a packed row; one: the length of every row
  std::vector<int64_t> chunks;     // lengths of what keys come in
  bool sinks = false, slopes = false;
  double cap = 0;

  int64_t length() const { return std::accumulate(chunks.begin(), chunks.end(), int64_t{0}); }
};

// eager_attention_forward of Hugging Face with masks of packed rows and windows, the sinks of
// GptOss and the ALiBi of Bloom.
Tensor reference(const Case& c, const std::vector<Tensor>& in, double scale) {
  const auto by_head = [](const Tensor& x) { return x.transpose(1, 2); };
  const int64_t repeats = c.heads / c.kv_heads, S = c.length();
  const Tensor keys = by_head(in[1]).repeat_interleave(repeats, 1);
  const Tensor values = by_head(in[2]).repeat_interleave(repeats, 1);
  const auto at = torch::TensorOptions().dtype(torch::kInt64).device(in[0].device());
  const Tensor place = torch::arange(S, at);
  const Tensor distance = place.unsqueeze(1) - place.unsqueeze(0);
  Tensor visible = distance >= 0;
  if (c.window > 0) visible = visible & (distance < c.window);
  const Tensor ends = torch::tensor(c.sequences, at).cumsum(0);
  const Tensor sequence = torch::bucketize(place, ends, /*out_int32=*/false, /*right=*/true);
  visible = visible & (sequence.unsqueeze(1) == sequence.unsqueeze(0));
  Tensor scores = by_head(in[0]).matmul(keys.transpose(2, 3)) * scale;
  if (c.cap > 0) scores = torch::tanh(scores / c.cap) * c.cap;
  if (c.slopes) scores = scores - in[4].view({1, -1, 1, 1}) * distance;
  scores = scores.masked_fill(~visible, -std::numeric_limits<double>::infinity());
  if (c.sinks)
    scores = torch::cat({scores, in[3].view({1, -1, 1, 1}).expand({c.batch, -1, S, 1})}, -1);
  return torch::softmax(scores, -1).slice(-1, 0, S).matmul(values).transpose(1, 2);
}

// The pieces of sequences in each chunk; `begin` counts from the chunk's own beginning.
std::vector<std::vector<RowSegment>> segments_by_chunk(const Case& c) {
  std::vector<std::vector<RowSegment>> chunks;
  int64_t chunk_begin = 0;
  for (const int64_t chunk : c.chunks) {
    auto& segments = chunks.emplace_back();
    int64_t sequence_begin = 0;
    for (const int64_t sequence : c.sequences) {
      const int64_t begin = std::max(chunk_begin, sequence_begin);
      const int64_t end = std::min(chunk_begin + chunk, sequence_begin + sequence);
      if (begin < end)
        segments.push_back(
            {begin - chunk_begin, end - begin, begin - sequence_begin, sequence_begin});
      sequence_begin += sequence;
    }
    chunk_begin += chunk;
  }
  return chunks;
}

// All queries in one tensor; keys of a chunk in one of their own.
std::vector<AttentionBlock> blocks_with(const Case& c, size_t key_chunk) {
  const auto chunks = segments_by_chunk(c);
  std::vector<AttentionBlock> blocks;
  int64_t chunk_begin = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    for (RowSegment queries : chunks[i]) {
      queries.begin += chunk_begin;
      for (const RowSegment& keys : chunks[key_chunk]) {
        const bool behind = queries.position >= keys.position;
        if (behind && queries.sequence_begin == keys.sequence_begin)
          blocks.push_back({queries, keys});
      }
    }
    chunk_begin += c.chunks[i];
  }
  return blocks;
}

struct Parts : torch::CustomClassHolder {
  Case c;
  PartAttention attention;
  std::vector<size_t> order;  // of chunks
};

class AttentionInParts : public torch::autograd::Function<AttentionInParts> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& sinks, const c10::intrusive_ptr<Parts>& parts) {
    AttentionSums sums = no_keys(q);
    const std::vector<Tensor> ks = k.split_with_sizes(parts->c.chunks, 1);
    const std::vector<Tensor> vs = v.split_with_sizes(parts->c.chunks, 1);
    for (const size_t i : parts->order) {
      meet_keys(sums, q, ks[i].contiguous(), vs[i].contiguous(), blocks_with(parts->c, i),
                parts->attention);
    }
    if (parts->c.sinks) meet_sinks(sums, sinks.to(sums.lse.scalar_type()));
    const Tensor output = sums.output.to(q.scalar_type());
    ctx->save_for_backward({q, k, v, sinks, output, sums.lse});
    ctx->saved_data["parts"] = c10::IValue::make_capsule(parts);
    return output;
  }

  static variable_list backward(AutogradContext* ctx, variable_list upstream) {
    const auto parts =
        c10::static_intrusive_pointer_cast<Parts>(ctx->saved_data["parts"].toCapsule());
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &q = saved[0], &output = saved[4], &lse = saved[5];
    const std::vector<Tensor> ks = saved[1].split_with_sizes(parts->c.chunks, 1);
    const std::vector<Tensor> vs = saved[2].split_with_sizes(parts->c.chunks, 1);
    const Tensor gradient = upstream[0].contiguous();
    const auto wide = lse.scalar_type();
    const Tensor dq = torch::zeros(q.sizes(), q.options().dtype(wide));
    std::vector<Tensor> dk(ks.size()), dv(ks.size());
    for (const size_t i : parts->order) {
      dk[i] = torch::zeros(ks[i].sizes(), ks[i].options().dtype(wide));
      dv[i] = torch::zeros_like(dk[i]);
      AttentionGradients gradients{dq, dk[i], dv[i]};
      add_gradients(gradients, gradient, q, ks[i].contiguous(), vs[i].contiguous(), output, lse,
                    blocks_with(parts->c, i), parts->attention);
    }
    const Tensor d_sinks = parts->c.sinks
                               ? gradient_of_sinks(saved[3].to(wide), gradient, output, lse)
                               : torch::zeros_like(saved[3]);
    const auto dtype = q.scalar_type();
    return {dq.to(dtype), torch::cat(dk, 1).to(dtype), torch::cat(dv, 1).to(dtype),
            d_sinks.to(saved[3].scalar_type()), Tensor()};
  }
};

Tensor in_parts(const Case& c, const std::vector<Tensor>& in, double scale, const Dropout& dropout,
                bool backwards) {
  const auto parts = c10::make_intrusive<Parts>();
  parts->c = c;
  parts->attention = {scale, c.window, dropout, {}, c.length()};
  const auto wide = in[0].scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  parts->attention.cap = c.cap;
  if (c.slopes) parts->attention.slopes = in[4].detach().to(wide);
  for (size_t i = 0; i < c.chunks.size(); ++i) parts->order.push_back(i);
  if (backwards) std::reverse(parts->order.begin(), parts->order.end());
  return AttentionInParts::apply(in[0], in[1], in[2], in[3], parts);
}

std::vector<Tensor> inputs(const Case& c, torch::Dtype dtype) {
  const int64_t S = c.length();
  return {random_tensor({c.batch, S, c.heads, c.head_dim}, dtype, 1),
          random_tensor({c.batch, S, c.kv_heads, c.head_dim}, dtype, 2),
          random_tensor({c.batch, S, c.kv_heads, c.head_dim}, dtype, 3),
          random_tensor({c.heads}, dtype, 4), random_tensor({c.heads}, dtype, 5).abs() * 0.1};
}

// The slopes have no gradient here: they are no input of the comparison.
void expect_whole(const Case& c, torch::Dtype dtype, bool backwards) {
  const double scale = 0.3;
  std::vector<Tensor> in = inputs(c, dtype);
  const Tensor slopes = in[4];
  in.pop_back();
  const auto with_slopes = [&](std::vector<Tensor> x, torch::Dtype to) {
    x.push_back(slopes.to(to));
    return x;
  };
  expect_op_matches(
      "attention in parts, window " + std::to_string(c.window),
      [&](const auto& x) {
        return in_parts(c, with_slopes(x, dtype), scale, {}, backwards) + x[3].sum() * 0;
      },
      [&](const auto& x) {
        return reference(c, with_slopes(x, torch::kFloat64), scale) + x[3].sum() * 0;
      },
      in, /*slack=*/4);
}

const std::vector<Case> kCases = {
    {1, 1, 1, 8, 0, {2}, {1, 1}},
    {2, 4, 2, 16, 0, {128}, {64, 64}},
    {2, 3, 1, 64, 0, {300}, {100, 70, 130}},
    {1, 2, 2, 20, 40, {260}, {65, 65, 65, 65}},
    {1, 4, 1, 32, 1, {90}, {30, 30, 30}},
    {1, 4, 2, 64, 0, {10, 200, 3, 47}, {100, 60, 100}},
    {1, 2, 1, 24, 33, {150, 110}, {130, 130}},
    {2, 4, 2, 16, 0, {150}, {75, 75}, true},
    {1, 4, 4, 16, 20, {70, 90}, {80, 80}, true},
    {1, 4, 4, 16, 0, {70, 90}, {80, 80}, false, true},
    {1, 4, 2, 24, 33, {70, 90}, {80, 80}, false, false, 0.9},
};

TEST(AttentionParts, EndAsAttentionOverAllKeys) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      for (const bool backwards : {false, true}) expect_whole(c, dtype, backwards);
    }
  }
}

TEST(AttentionParts, DropTheProbabilitiesThatTheWholeRowDrops) {
  if (test_device().is_cuda())
    GTEST_SKIP() << "whole rows are libtorch's there, which draws its own";
  const Dropout dropout{0.3, 77};
  for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
    // Chunks that do not begin at a multiple of the four keys that share a random number.
    const Case c{1, 2, 1, 16, 0, {50, 130}, {70, 37, 73}};
    const PackedSequences packed = packed_sequences(c.sequences, test_device());
    expect_op_matches(
        "attention in parts with dropout",
        [&](const auto& x) { return in_parts(c, x, 0.3, dropout, true) + x[3].sum() * 0; },
        [&](const auto& x) {
          return causal_attention(x[0], x[1], x[2], 0.3, 0, packed, dropout) + x[3].sum() * 0;
        },
        {inputs(c, dtype)[0], inputs(c, dtype)[1], inputs(c, dtype)[2], inputs(c, dtype)[3]},
        /*slack=*/4);
  }
}

TEST(AttentionParts, RefusesKeysAmongTheQueries) {
  const Tensor x = random_tensor({1, 8, 1, 8}, torch::kFloat32, 1);
  AttentionSums sums = no_keys(x);
  const auto meet = [&](const AttentionBlock& block) {
    meet_keys(sums, x, x, x, {block}, {.scale = 1, .row_length = 8});
  };
  EXPECT_THROW(meet({{0, 4, 2, 0}, {0, 4, 0, 0}}), std::invalid_argument);
  EXPECT_THROW(meet({{0, 4, 0, 0}, {4, 4, 4, 0}}), std::invalid_argument);
  EXPECT_THROW(meet({{6, 4, 4, 0}, {0, 4, 0, 0}}), std::invalid_argument);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
