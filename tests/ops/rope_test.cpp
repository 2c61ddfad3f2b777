#include "sftbench/ops/rope.h"

#include "ops/op_test_support.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

struct Case {
  int64_t batch, length, heads, kv_heads, head_dim;
  bool per_batch;  // cos and sin of shape [B, S, D/2]
};

const std::vector<Case> kCases = {{1, 1, 1, 1, 2, false},   {2, 7, 3, 1, 64, false},
                                  {1, 33, 9, 3, 64, true},  {3, 5, 4, 2, 20, false},
                                  {2, 16, 2, 2, 128, true}, {1, 3, 5, 5, 6, false}};

// apply_rotary_pos_emb of Hugging Face, with cos and sin of whole heads.
Tensor reference(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  const Tensor c = torch::cat({cos, cos}, -1).unsqueeze(-2),
               s = torch::cat({sin, sin}, -1).unsqueeze(-2);
  const auto halves = x.chunk(2, -1);
  return x * c + torch::cat({-halves[1], halves[0]}, -1) * s;
}

std::pair<Tensor, Tensor> angles(const Case& c, torch::Dtype dtype) {
  std::vector<int64_t> sizes = {c.length, c.head_dim / 2};
  if (c.per_batch) sizes.insert(sizes.begin(), c.batch);
  const Tensor angle = 3 * random_tensor(sizes, torch::kFloat64, 7);
  return {angle.cos().to(dtype), angle.sin().to(dtype)};
}

TEST(Rope, MatchesFloat64ForwardAndBackward) {
  for (const auto dtype : kDtypes) {
    for (const Case& c : kCases) {
      const auto [cos, sin] = angles(c, dtype);
      const Tensor wide_cos = cos.to(torch::kFloat64), wide_sin = sin.to(torch::kFloat64);
      const std::vector<Tensor> inputs = {
          random_tensor({c.batch, c.length, c.heads, c.head_dim}, dtype, 1),
          random_tensor({c.batch, c.length, c.kv_heads, c.head_dim}, dtype, 2)};
      expect_op_matches(
          "apply_rope",
          [&, cosine = cos, sine = sin](const auto& in) {
            const auto [q, k] = apply_rope(in[0], in[1], cosine, sine);
            return torch::cat({q, k}, 2);
          },
          [&](const auto& in) {
            return torch::cat(
                {reference(in[0], wide_cos, wide_sin), reference(in[1], wide_cos, wide_sin)}, 2);
          },
          inputs);
    }
  }
}

TEST(Rope, MatchesForNonContiguousInput) {
  const Case c{2, 5, 4, 2, 16, false};
  for (const auto dtype : kDtypes) {
    const auto [cos, sin] = angles(c, dtype);
    const Tensor q = random_tensor({2, 4, 5, 16}, dtype, 1),
                 k = random_tensor({2, 2, 5, 16}, dtype, 2);
    const auto [rotated_q, rotated_k] = apply_rope(q.transpose(1, 2), k.transpose(1, 2), cos, sin);
    const auto wide = [](const Tensor& x) { return x.to(torch::kFloat64); };
    expect_close("q", rotated_q, reference(wide(q).transpose(1, 2), wide(cos), wide(sin)));
    expect_close("k", rotated_k, reference(wide(k).transpose(1, 2), wide(cos), wide(sin)));
  }
}

TEST(Rope, LeavesItsInputsAsTheyAre) {
  const Case c{1, 3, 2, 1, 8, false};
  const auto [cos, sin] = angles(c, torch::kFloat32);
  const Tensor q = random_tensor({1, 3, 2, 8}, torch::kFloat32, 1),
               k = random_tensor({1, 3, 1, 8}, torch::kFloat32, 2);
  const Tensor q_before = q.clone(), k_before = k.clone();
  apply_rope(q, k, cos, sin);
  EXPECT_TRUE(q.equal(q_before));
  EXPECT_TRUE(k.equal(k_before));
}

TEST(Rope, OneUnusedOutputIsNoError) {
  const Case c{1, 3, 2, 1, 8, false};
  const auto [cos, sin] = angles(c, torch::kFloat32);
  const Tensor q = leaf(random_tensor({1, 3, 2, 8}, torch::kFloat32, 1));
  const Tensor k = leaf(random_tensor({1, 3, 1, 8}, torch::kFloat32, 2));
  std::get<0>(apply_rope(q, k, cos, sin)).sum().backward();
  EXPECT_TRUE(q.grad().defined());
}

TEST(Rope, WrongShapesAreRefused) {
  const Tensor q = torch::zeros({1, 3, 2, 8}), k = torch::zeros({1, 3, 1, 8});
  try {
    apply_rope(q, k, torch::zeros({3, 8}), torch::zeros({3, 4}));
    FAIL() << "no exception";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(),
                 "apply_rope: cos must be float32 [3, 4] on cpu, got float32 [3, 8] on cpu");
  }
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
