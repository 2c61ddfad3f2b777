// Written as Hugging Face's models write it, operator by operator: what a fused form saves is
// measured against this.
#include "sftbench/ops/plain.h"

#include <limits>

#include "ops/checks.h"
#include "ops/dropout_mask.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/linear.h"
#include "sftbench/ops/linear_cross_entropy.h"
#include "sftbench/ops/matmul.h"

namespace sftbench::ops::plain {
namespace {

using torch::Tensor;

Tensor rotate_half(const Tensor& x) {
  const auto halves = x.chunk(2, -1);
  return torch::cat({-halves[1], halves[0]}, -1);
}

// [B, K, S, D] -> [B, K * times, S, D], a copy.
Tensor repeat_kv(const Tensor& x, int64_t times) {
  if (times == 1) return x;
  const int64_t B = x.size(0), K = x.size(1), S = x.size(2), D = x.size(3);
  return x.unsqueeze(2).expand({B, K, times, S, D}).reshape({B, K * times, S, D});
}

double lowest(torch::Dtype dtype) {
  switch (dtype) {
    case torch::kFloat16:
      return std::numeric_limits<at::Half>::lowest();
    case torch::kBFloat16:
      return std::numeric_limits<at::BFloat16>::lowest();
    case torch::kFloat32:
      return std::numeric_limits<float>::lowest();
    default:
      return std::numeric_limits<double>::lowest();
  }
}

// [S]: the number of the sequence that each position belongs to.
Tensor sequence_of_positions(const PackedSequences& packed, torch::Device device) {
  Tensor sequences = torch::zeros({packed.offsets.back()}, torch::kInt64);
  for (size_t i = 1; i + 1 < packed.offsets.size(); ++i) {
    sequences.slice(0, packed.offsets[i]) += 1;
  }
  return sequences.to(device);
}

// [S, S], added to the scores: 0 where the query sees the key, the lowest number where it does not.
Tensor causal_mask(const Tensor& q, int64_t window, const PackedSequences& packed) {
  const torch::NoGradGuard no_grad;
  const int64_t S = q.size(1);
  const double hidden_score = lowest(q.scalar_type());
  Tensor mask = torch::full({S, S}, hidden_score, q.options()).triu_(1);
  if (window > 0 && window < S) {
    mask += torch::full({S, S}, hidden_score, q.options()).tril_(-window);
  }
  if (!packed.empty()) {
    const Tensor sequences = sequence_of_positions(packed, q.device());
    mask.masked_fill_(sequences.unsqueeze(1) != sequences.unsqueeze(0), hidden_score);
  }
  return mask;
}

// [S, S]: key minus query.
Tensor distances_of(int64_t length, const torch::TensorOptions& options) {
  const Tensor position = torch::arange(length, options);
  return position.unsqueeze(0) - position.unsqueeze(1);
}

// [B, H, S, S]: the factor on each probability. A sequence of a packed row has its own square.
Tensor kept_matrix(const Tensor& q, const PackedSequences& packed, const Dropout& dropout) {
  const torch::NoGradGuard no_grad;
  const int64_t B = q.size(0), S = q.size(1), H = q.size(2);
  const auto square = [&](int64_t begin, int64_t end) {
    return kept_keys(dropout, {B, H, S, begin, 0, end - begin, 0, end - begin}, q.options());
  };
  if (packed.empty()) return square(0, S);
  Tensor kept = torch::zeros({B, H, S, S}, q.options());
  for (size_t i = 0; i + 1 < packed.offsets.size(); ++i) {
    const int64_t begin = packed.offsets[i], end = packed.offsets[i + 1];
    kept.slice(2, begin, end).slice(3, begin, end).copy_(square(begin, end));
  }
  return kept;
}

}  // namespace

Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                            const LogitForm& form, const LossDenominator& denominator,
                            const LogitAddend& addend) {
  constexpr const char* kOp = "plain::linear_cross_entropy";
  require_float(hidden, kOp, "hidden");
  require(hidden.dim() == 2, kOp, "hidden must be [N, H]", describe(hidden));
  require_like(weight, kOp, "weight", {-1, hidden.size(1)}, hidden);
  Tensor product = ops::linear(hidden, weight);
  if (addend.hidden.defined()) product = product + ops::linear(addend.hidden, addend.weight);
  const Tensor logits = form.of(product);
  const Tensor sum = at::cross_entropy_loss(logits.to(wide_dtype(logits)), labels, /*weight=*/{},
                                            at::Reduction::Sum, kIgnoredLabel);
  return denominator.divide(sum);
}

Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  require_float(x, "plain::rms_norm", "x");
  const bool is_wide = weight.scalar_type() == wide_dtype(x);
  require_like(weight, "plain::rms_norm", "weight", {x.size(-1)}, is_wide ? weight : x);
  const Tensor wide = x.to(wide_dtype(x));
  const Tensor variance = wide.pow(2).mean(-1, /*keepdim=*/true);
  const Tensor normalized = wide * torch::rsqrt(variance + epsilon);
  return (weight * normalized.to(weight.scalar_type())).to(x.scalar_type());
}

NormedSum add_rms_norm(const Tensor& x, const Tensor& addend, double scale, const Tensor& weight,
                       double epsilon) {
  const Tensor sum = addend.defined() ? x.add(addend, scale) : x;
  return {sum, rms_norm(sum, weight, epsilon)};
}

Tensor gated_rms_norm(const Tensor& y, const Tensor& gate, const Tensor& weight, int64_t groups,
                      double epsilon) {
  require_float(y, "plain::gated_rms_norm", "y");
  require_like(gate, "plain::gated_rms_norm", "gate", y.sizes().vec(), y);
  const auto wide = wide_dtype(y);
  const Tensor gated =
      (y.to(wide) * at::silu(gate.to(wide))).unflatten(-1, {groups, y.size(-1) / groups});
  const Tensor variance = gated.pow(2).mean(-1, /*keepdim=*/true);
  const Tensor normalized = (gated * torch::rsqrt(variance + epsilon)).flatten(-2);
  return (weight * normalized.to(y.scalar_type())).to(y.scalar_type());
}

std::tuple<Tensor, Tensor> apply_rope(const Tensor& q, const Tensor& k, const Tensor& cos,
                                      const Tensor& sin) {
  require_float(q, "plain::apply_rope", "q");
  require_like(k, "plain::apply_rope", "k", {q.size(0), q.size(1), -1, q.size(3)}, q);
  const Tensor cosine = torch::cat({cos, cos}, -1).unsqueeze(-2);
  const Tensor sine = torch::cat({sin, sin}, -1).unsqueeze(-2);
  return {q * cosine + rotate_half(q) * sine, k * cosine + rotate_half(k) * sine};
}

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                        int64_t window, const PackedSequences& packed, const Dropout& dropout,
                        const ScoreTerms& terms) {
  constexpr const char* kOp = "plain::causal_attention";
  require_float(q, kOp, "q");
  require_like(k, kOp, "k", {q.size(0), q.size(1), -1, q.size(3)}, q);
  require_like(v, kOp, "v", k.sizes().vec(), q);
  require(
      k.size(2) > 0 && q.size(2) % k.size(2) == 0, kOp,
      "the number of key/value heads must divide the " + std::to_string(q.size(2)) + " query heads",
      std::to_string(k.size(2)));
  require_probability(dropout, kOp);
  const int64_t times = q.size(2) / k.size(2);
  const Tensor queries = q.transpose(1, 2);
  const Tensor keys = repeat_kv(k.transpose(1, 2), times);
  const Tensor values = repeat_kv(v.transpose(1, 2), times);
  Tensor scores = batched_matmul(queries, keys.transpose(2, 3)) * scale;
  if (terms.cap > 0) scores = LogitForm(1, terms.cap).of(scores);
  if (terms.slopes.defined()) {
    const Tensor distances = distances_of(q.size(1), terms.slopes.options());
    scores = scores + (terms.slopes.view({-1, 1, 1}) * distances).to(q.scalar_type());
  }
  scores = scores + causal_mask(q, window, packed);
  if (terms.sinks.defined()) {
    const Tensor column = terms.sinks.to(q.scalar_type()).view({1, -1, 1, 1});
    scores = torch::cat({scores, column.expand({q.size(0), -1, q.size(1), 1})}, -1);
  }
  Tensor probabilities = torch::softmax(scores, -1, wide_dtype(q)).to(q.scalar_type());
  if (terms.sinks.defined()) probabilities = probabilities.slice(-1, 0, q.size(1));
  if (dropout.probability > 0) probabilities = probabilities * kept_matrix(q, packed, dropout);
  return batched_matmul(probabilities, values).transpose(1, 2).contiguous();
}

}  // namespace sftbench::ops::plain
