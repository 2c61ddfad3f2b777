// The plain forms against the fused ones in float64, which their own tests hold against Hugging
// Face's formulas.
#include "sftbench/ops/plain.h"

#include <cmath>

#include "ops/op_test_support.h"
#include "sftbench/ops/ops.h"

namespace sftbench::ops {
namespace SFTBENCH_FILE {

TEST(PlainRmsNorm, EqualsTheFusedForm) {
  for (const auto dtype : kDtypes) {
    expect_op_matches(
        "plain rms_norm", [](const auto& in) { return plain::rms_norm(in[0], in[1], 1e-5); },
        [](const auto& in) { return rms_norm(in[0], in[1], 1e-5); },
        {random_tensor({3, 5, 40}, dtype, 1), random_tensor({40}, dtype, 2)}, 2.0);
  }
}

TEST(PlainRope, EqualsTheFusedForm) {
  for (const auto dtype : kDtypes) {
    const Tensor angle = 3 * random_tensor({7, 10}, torch::kFloat64, 7);
    const auto both = [&](auto op, torch::Dtype table_dtype) {
      return [=](const std::vector<Tensor>& in) {
        const Tensor cos = angle.cos().to(dtype).to(table_dtype);
        const Tensor sin = angle.sin().to(dtype).to(table_dtype);
        const auto [q, k] = op(in[0], in[1], cos, sin);
        return torch::cat({q, k}, 2);
      };
    };
    expect_op_matches(
        "plain apply_rope", both(plain::apply_rope, dtype), both(apply_rope, torch::kFloat64),
        {random_tensor({2, 7, 4, 20}, dtype, 1), random_tensor({2, 7, 2, 20}, dtype, 2)}, 2.0);
  }
}

struct AttentionCase {
  int64_t batch, length, heads, kv_heads, window;
  std::vector<int64_t> packed;
};

TEST(PlainAttention, EqualsTheFusedForm) {
  const std::vector<AttentionCase> cases = {
      {2, 33, 4, 2, 0, {}},   {1, 1, 2, 1, 0, {}},          {1, 40, 3, 3, 7, {}},
      {1, 40, 2, 1, 100, {}}, {1, 40, 4, 2, 0, {9, 1, 30}}, {1, 40, 4, 2, 5, {20, 20}}};
  for (const auto dtype : kDtypes) {
    for (const AttentionCase& c : cases) {
      const PackedSequences packed = packed_sequences(c.packed, test_device());
      // Scores are rounded to the dtype before the softmax, which the fused form never does: a
      // score of a few units has an error of as many half ulps, and with it the probability.
      const double slack = dtype == torch::kBFloat16 || dtype == torch::kFloat16 ? 6.0 : 2.0;
      expect_op_matches(
          "plain attention S=" + std::to_string(c.length) + " window=" + std::to_string(c.window),
          [&](const auto& in) {
            return plain::causal_attention(in[0], in[1], in[2], 0.25, c.window, packed);
          },
          [&](const auto& in) {
            return causal_attention(in[0], in[1], in[2], 0.25, c.window, packed);
          },
          {random_tensor({c.batch, c.length, c.heads, 16}, dtype, 1),
           random_tensor({c.batch, c.length, c.kv_heads, 16}, dtype, 2),
           random_tensor({c.batch, c.length, c.kv_heads, 16}, dtype, 3)},
          slack);
    }
  }
}

TEST(PlainAttention, EqualsTheFusedFormWithTermsOfScores) {
  for (const auto dtype : kDtypes) {
    const auto with_terms = [](const auto& attention, const std::vector<Tensor>& in) {
      const auto wide = in[0].scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
      const Tensor slopes = torch::tensor({0.25, 0.0625, 0.015625, 0.00390625}, wide);
      return attention(in[0], in[1], in[2], 0.25, 0, {}, {}, {slopes.to(test_device()), in[3]});
    };
    expect_op_matches(
        "plain attention with terms",
        [&](const auto& in) { return with_terms(plain::causal_attention, in); },
        [&](const auto& in) { return with_terms(causal_attention, in); },
        {random_tensor({2, 33, 4, 16}, dtype, 1), random_tensor({2, 33, 2, 16}, dtype, 2),
         random_tensor({2, 33, 2, 16}, dtype, 3), random_tensor({4}, dtype, 4)},
        dtype == torch::kBFloat16 || dtype == torch::kFloat16 ? 6.0 : 2.0);
  }
}

TEST(PlainLoss, EqualsTheFusedForm) {
  const Tensor labels =
      (torch::arange(12) * 7 % 50).masked_fill(torch::arange(12) % 5 == 0, kIgnoredLabel);
  for (const auto dtype : kDtypes) {
    for (const double logit_scale : {1.0, 0.25}) {
      const auto compute = [&](auto op, torch::Dtype computed_in) {
        const Tensor hidden = leaf(random_tensor({12, 24}, dtype, 1), computed_in);
        const Tensor weight = leaf(random_tensor({50, 24}, dtype, 2), computed_in);
        const Tensor loss =
            op(hidden, weight, labels.to(test_device()), logit_scale, 7.0, LogitAddend{});
        loss.backward();
        return std::vector<Tensor>{loss.detach(), hidden.grad(), weight.grad()};
      };
      const auto found = compute(plain::linear_cross_entropy, dtype);
      const auto expected = compute(linear_cross_entropy, torch::kFloat64);
      EXPECT_EQ(found[0].scalar_type(),
                dtype == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32);
      EXPECT_LE(relative_error(found[0], expected[0]), tolerance(dtype));
      expect_close("hidden", found[1], expected[1], 3.0);
      expect_close("weight", found[2], expected[2], 3.0);
    }
  }
}

// The gradient of a tied embedding arrives from two sides, one of which adds in place.
TEST(PlainLoss, AddsToTheGradientThatIsThere) {
  const Tensor hidden = leaf(random_tensor({6, 16}, torch::kFloat32, 1));
  const Tensor weight = leaf(random_tensor({30, 16}, torch::kFloat32, 2));
  const Tensor labels = torch::arange(6).to(test_device());
  plain::linear_cross_entropy(hidden, weight, labels, 1.0, 6.0).backward();
  const Tensor once = weight.grad().clone();
  plain::linear_cross_entropy(hidden, weight, labels, 1.0, 6.0).backward();
  expect_close("twice", weight.grad(), 2 * once);
}

TEST(PlainForms, RefuseWrongShapesLikeTheFusedOnes) {
  const Tensor x = torch::zeros({2, 8});
  EXPECT_THROW(plain::rms_norm(x, torch::zeros({7}), 1e-5), std::invalid_argument);
  EXPECT_THROW(plain::linear_cross_entropy(x, torch::zeros({5, 7}),
                                           torch::zeros({2}, torch::kInt64), 1.0, 1.0),
               std::invalid_argument);
  const Tensor q = torch::zeros({1, 4, 6, 8});
  EXPECT_THROW(
      plain::causal_attention(q, torch::zeros({1, 4, 4, 8}), torch::zeros({1, 4, 4, 8}), 1.0),
      std::invalid_argument);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench::ops
