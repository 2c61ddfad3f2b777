#include "sftbench/ops/attention.h"

#include <algorithm>
#include <limits>
#include <set>

#include "ops/aten/library_attention.h"
#include "ops/attention_impl.h"
#include "ops/checks.h"
#include "ops/cpu/dispatch.h"
#include "ops/dropout_mask.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

const AttentionImpl& attention_for(const Tensor& x) {
  return has_cpu_kernels(x) ? kAttentionCpu : kAttentionAten;
}

OptionalTensor optional_term(const Tensor& term) {
  return term.defined() ? OptionalTensor(term) : OptionalTensor();
}

ScoreTerms wide_terms(const Tensor& slopes, const Tensor& sinks, double cap, const Tensor& q) {
  const auto wide = [&](const Tensor& term) {
    return term.defined() ? term.detach().to(wide_dtype(q)).contiguous() : term;
  };
  return {wide(slopes), wide(sinks), cap};
}

class CausalAttention : public torch::autograd::Function<CausalAttention> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        const OptionalTensor& slopes, const OptionalTensor& sinks, double cap,
                        double scale, int64_t window, const std::vector<int64_t>& offsets,
                        const Dropout& dropout) {
    const Tensor no_term;
    const Tensor& own_slopes = slopes ? *slopes : no_term;
    const Tensor& own_sinks = sinks ? *sinks : no_term;
    const auto [output, lse] = attention_for(q).forward(q, k, v, scale, window, offsets, dropout,
                                                        wide_terms(own_slopes, own_sinks, cap, q));
    ctx->save_for_backward({q, k, v, output, lse, own_slopes, own_sinks});
    ctx->saved_data["cap"] = cap;
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["window"] = window;
    ctx->saved_data["offsets"] = offsets;
    ctx->saved_data["dropout"] = dropout.probability;
    ctx->saved_data["seed"] = static_cast<int64_t>(dropout.seed);
    return output;
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Dropout dropout = {ctx->saved_data["dropout"].toDouble(),
                             static_cast<uint64_t>(ctx->saved_data["seed"].toInt())};
    const Tensor& sinks = saved[6];
    const double cap = ctx->saved_data["cap"].toDouble();
    const auto [q, k, v, of_sinks] = attention_for(saved[0]).backward(
        output_gradients[0].contiguous(), saved[0], saved[1], saved[2], saved[3], saved[4],
        ctx->saved_data["scale"].toDouble(), ctx->saved_data["window"].toInt(),
        ctx->saved_data["offsets"].toIntVector(), dropout,
        wide_terms(saved[5], sinks, cap, saved[0]));
    const bool wanted = sinks.defined() && sinks.requires_grad();
    return {q,
            k,
            v,
            Tensor(),
            wanted ? of_sinks.to(sinks.scalar_type()) : Tensor(),
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor(),
            Tensor()};
  }
};

void check_shapes(const Tensor& q, const Tensor& k, const Tensor& v, int64_t window) {
  require_float(q, "causal_attention", "q");
  require(q.dim() == 4, "causal_attention", "q must be [B, S, H, D]", describe(q));
  require_like(k, "causal_attention", "k", {q.size(0), q.size(1), -1, q.size(3)}, q);
  require_like(v, "causal_attention", "v", k.sizes().vec(), q);
  require(
      k.size(2) > 0 && q.size(2) % k.size(2) == 0, "causal_attention",
      "the number of key/value heads must divide the " + std::to_string(q.size(2)) + " query heads",
      std::to_string(k.size(2)));
  require(window >= 0, "causal_attention", "window must be 0 or more", std::to_string(window));
}

void check_terms(const Tensor& q, const ScoreTerms& terms) {
  const Tensor wide = torch::empty({0}, q.options().dtype(wide_dtype(q)));
  const auto is_wide = [&](const Tensor& term) { return term.scalar_type() == wide.scalar_type(); };
  if (terms.slopes.defined())
    require_like(terms.slopes, "causal_attention", "slopes", {q.size(2)}, wide);
  if (terms.sinks.defined()) {
    require_like(terms.sinks, "causal_attention", "sinks", {q.size(2)},
                 is_wide(terms.sinks) ? wide : q);
  }
}

// Blocks in calls in which no two have a query or a key in common.
std::vector<std::vector<AttentionBlock>> apart(const std::vector<AttentionBlock>& blocks) {
  std::vector<std::vector<AttentionBlock>> calls;
  std::vector<std::set<int64_t>> queries, keys;
  for (const AttentionBlock& block : blocks) {
    size_t call = 0;
    while (call < calls.size() &&
           (queries[call].contains(block.queries.begin) || keys[call].contains(block.keys.begin))) {
      ++call;
    }
    if (call == calls.size()) {
      calls.emplace_back();
      queries.emplace_back();
      keys.emplace_back();
    }
    calls[call].push_back(block);
    queries[call].insert(block.queries.begin);
    keys[call].insert(block.keys.begin);
  }
  return calls;
}

void check_blocks(const Tensor& q, const Tensor& k, const std::vector<AttentionBlock>& blocks,
                  const PartAttention& attention) {
  require(attention.window >= 0, "meet_keys", "window must be 0 or more",
          std::to_string(attention.window));
  require_probability(attention.dropout, "meet_keys");
  const auto inside = [](const RowSegment& segment, int64_t rows) {
    return segment.begin >= 0 && segment.length > 0 && segment.begin + segment.length <= rows;
  };
  for (const auto& [queries, keys] : blocks) {
    require(inside(queries, q.size(1)) && inside(keys, k.size(1)), "meet_keys",
            "blocks must lie in the queries and keys", std::to_string(queries.begin));
    const bool own = queries.position == keys.position && queries.length == keys.length;
    require(own || queries.position >= keys.position + keys.length, "meet_keys",
            "keys must be the queries' own or stand before all of them",
            std::to_string(keys.position));
  }
}

}  // namespace

AttentionSums no_keys(const Tensor& q) {
  const auto wide = q.options().dtype(wide_dtype(q)).requires_grad(false);
  return {torch::zeros(q.sizes(), wide),
          torch::full({q.size(0), q.size(2), q.size(1)}, -std::numeric_limits<double>::infinity(),
                      wide)};
}

void meet_keys(AttentionSums& sums, const Tensor& q, const Tensor& k, const Tensor& v,
               const std::vector<AttentionBlock>& blocks, const PartAttention& attention) {
  const torch::NoGradGuard no_grad;
  check_blocks(q, k, blocks, attention);
  if (has_library_blocks(q, attention)) return meet_by_library(sums, q, k, v, blocks, attention);
  const AttentionImpl& impl = attention_for(q);
  for (const auto& call : apart(blocks)) impl.meet(sums, q, k, v, call, attention);
}

void meet_sinks(AttentionSums& sums, const Tensor& sinks) {
  const torch::NoGradGuard no_grad;
  const Tensor lse = at::logaddexp(sums.lse, sinks.view({1, -1, 1}));
  sums.output.mul_((sums.lse - lse).exp().transpose(1, 2).unsqueeze(-1));
  sums.lse = lse;
}

void add_gradients(AttentionGradients& gradients, const Tensor& output_gradient, const Tensor& q,
                   const Tensor& k, const Tensor& v, const Tensor& output, const Tensor& lse,
                   const std::vector<AttentionBlock>& blocks, const PartAttention& attention) {
  const torch::NoGradGuard no_grad;
  check_blocks(q, k, blocks, attention);
  if (has_library_blocks(q, attention)) {
    return add_gradients_by_library(gradients, output_gradient, q, k, v, output, lse, blocks,
                                    attention);
  }
  const AttentionImpl& impl = attention_for(q);
  for (const auto& call : apart(blocks))
    impl.add_gradients(gradients, output_gradient, q, k, v, output, lse, call, attention);
}

Tensor gradient_of_sinks(const Tensor& sinks, const Tensor& output_gradient, const Tensor& output,
                         const Tensor& lse) {
  const torch::NoGradGuard no_grad;
  const auto wide = wide_dtype(output);
  return sink_gradient(sinks, (output_gradient.to(wide) * output.to(wide)).sum(-1), lse);
}

Tensor sink_gradient(const Tensor& sinks, const Tensor& delta, const Tensor& lse) {
  const Tensor probabilities = (sinks.unsqueeze(-1) - lse).exp();  // [B, H, S]
  return -(probabilities * delta.transpose(1, 2)).sum(std::vector<int64_t>{0, 2});
}

PackedSequences packed_sequences(const std::vector<int64_t>& lengths, torch::Device device) {
  PackedSequences packed;
  if (lengths.empty()) return packed;
  packed.offsets = {0};
  for (const int64_t length : lengths) {
    require(length > 0, "packed_sequences", "every length must be above 0", std::to_string(length));
    packed.offsets.push_back(packed.offsets.back() + length);
    packed.longest = std::max(packed.longest, length);
  }
  packed.cumulative = torch::tensor(packed.offsets, torch::kInt32).to(device);
  return packed;
}

Tensor causal_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                        int64_t window, const PackedSequences& packed, const Dropout& dropout,
                        const ScoreTerms& terms) {
  check_shapes(q, k, v, window);
  check_terms(q, terms);
  require_packed(packed, "causal_attention", "q", q);
  require_probability(dropout, "causal_attention");
  if (terms.empty() && has_library_attention(q, window, packed))
    return library_attention(q, k, v, scale, window, packed, dropout);
  if (has_library_sinks(q, terms, dropout))
    return library_sink_attention(q, k, v, terms.sinks, scale, window, packed);
  const Tensor qc = q.contiguous(), kc = k.contiguous(), vc = v.contiguous();
  const bool differentiable = torch::GradMode::is_enabled() &&
                              (q.requires_grad() || k.requires_grad() || v.requires_grad() ||
                               (terms.sinks.defined() && terms.sinks.requires_grad()));
  if (!differentiable) {
    return attention_for(q)
        .forward(qc, kc, vc, scale, window, packed.offsets, dropout,
                 wide_terms(terms.slopes, terms.sinks, terms.cap, q))
        .first;
  }
  return CausalAttention::apply(qc, kc, vc, optional_term(terms.slopes), optional_term(terms.sinks),
                                terms.cap, scale, window, packed.offsets, dropout);
}

namespace {

// Keys that stand before all queries are hidden from none.
std::vector<AttentionBlock> all_before(int64_t queries, int64_t keys) {
  return {{{.begin = 0, .length = queries, .position = keys, .sequence_begin = 0},
           {.begin = 0, .length = keys, .position = 0, .sequence_begin = 0}}};
}

class FullAttention : public torch::autograd::Function<FullAttention> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& q, const Tensor& k, const Tensor& v,
                        double scale) {
    AttentionSums sums = no_keys(q);
    meet_keys(sums, q, k, v, all_before(q.size(1), k.size(1)), {.scale = scale});
    const Tensor output = sums.output.to(q.scalar_type());
    ctx->save_for_backward({q, k, v, output, sums.lse});
    ctx->saved_data["scale"] = scale;
    return output;
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &lse = saved[4];
    AttentionGradients gradients = {torch::zeros(q.sizes(), lse.options()),
                                    torch::zeros(k.sizes(), lse.options()),
                                    torch::zeros(k.sizes(), lse.options())};
    add_gradients(gradients, output_gradients[0].contiguous(), q, k, saved[2], saved[3], lse,
                  all_before(q.size(1), k.size(1)), {.scale = ctx->saved_data["scale"].toDouble()});
    const auto dtype = q.scalar_type();
    return {gradients.q.to(dtype), gradients.k.to(dtype), gradients.v.to(dtype), Tensor()};
  }
};

}  // namespace

Tensor full_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale) {
  check_shapes(q, k, v, kAllKeys);
  return FullAttention::apply(q.contiguous(), k.contiguous(), v.contiguous(), scale);
}

}  // namespace sftbench::ops
