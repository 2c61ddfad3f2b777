// Shapes: B batch, S further positions. Of the scan: N heads in G groups, P head, K state.
#include "model/decoding.h"

#include <algorithm>
#include <vector>

#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

using torch::Tensor;

// All so far, contiguous.
const Tensor& extended(Tensor& kept, const Tensor& more) {
  kept = kept.defined() ? torch::cat({kept, more}, 1) : more.contiguous();
  return kept;
}

}  // namespace

Tensor decode_attention(DecodingState& state, const Tensor& q, const Tensor& k, const Tensor& v,
                        double scale, int64_t window, const ops::ScoreTerms& terms) {
  const int64_t before = state.length(), count = q.size(1);
  const Tensor& keys = extended(state.next(), k);
  const Tensor& values = extended(state.next(), v);
  ops::AttentionSums sums = ops::no_keys(q);
  const ops::PartAttention attention = {
      .scale = scale, .window = window, .slopes = terms.slopes, .cap = terms.cap};
  const RowSegment queries = {.begin = 0, .length = count, .position = before};
  const auto meet = [&](const RowSegment& of_keys) {
    ops::meet_keys(sums, q.contiguous(), keys, values, {{queries, of_keys}}, attention);
  };
  const int64_t first = window == ops::kAllKeys ? 0 : std::max<int64_t>(0, before - window + 1);
  if (first < before) meet({.begin = first, .length = before - first, .position = first});
  meet({.begin = before, .length = count, .position = before});
  if (terms.sinks.defined()) ops::meet_sinks(sums, terms.sinks.to(sums.lse.scalar_type()));
  return sums.output.to(q.scalar_type());
}

Tensor decode_convolution(DecodingState& state, const Tensor& x, const Tensor& weight,
                          const Tensor& bias, ops::ConvolutionActivation activation) {
  const int64_t before = weight.size(-1) - 1;
  Tensor& last = state.next();
  if (!last.defined()) last = torch::zeros({x.size(0), before, x.size(2)}, x.options());
  const Tensor rows = torch::cat({last, x}, 1);
  last = rows.slice(1, rows.size(1) - before).clone();
  return ops::causal_convolution(rows, weight, bias, activation).slice(1, before);
}

Tensor decode_scan(DecodingState& state, const Tensor& x, const Tensor& dt, const Tensor& a,
                   const Tensor& b, const Tensor& c, const Tensor& d) {
  const torch::Dtype wide = torch::promote_types(x.scalar_type(), torch::kFloat32);
  const int64_t heads_of_group = x.size(2) / b.size(2);
  const auto of_heads = [&](const Tensor& of_groups, int64_t s) {
    return of_groups.select(1, s).to(wide).repeat_interleave(heads_of_group, 1).unsqueeze(2);
  };
  Tensor& kept = state.next();  // [B, N, P, K]
  std::vector<Tensor> outputs;
  for (int64_t s = 0; s < x.size(1); ++s) {
    const Tensor fed = x.select(1, s).to(wide);    // [B, N, P]
    const Tensor step = dt.select(1, s).to(wide);  // [B, N]
    const Tensor added = (fed * step.unsqueeze(-1)).unsqueeze(-1) * of_heads(b, s);
    const Tensor left = (step * a.to(wide)).exp().unsqueeze(-1).unsqueeze(-1);
    kept = kept.defined() ? kept * left + added : added;
    outputs.push_back((kept * of_heads(c, s)).sum(-1) + fed * d.to(wide).unsqueeze(-1));
  }
  return torch::stack(outputs, 1).to(x.scalar_type());
}

}  // namespace sftbench
