#include "ops/aten/library_attention.h"

#if SFTBENCH_CUDA
#include <ATen/cuda/CUDAContext.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "sftbench/base/torch.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench::ops {

#if SFTBENCH_TORCH_2
namespace {

using torch::Tensor;

// FlashAttention 2 wants half precision, heads of at most 256 and an Ampere or later.
bool has_flash_attention([[maybe_unused]] const Tensor& q) {
#if SFTBENCH_CUDA
  const bool half = q.scalar_type() == torch::kBFloat16 || q.scalar_type() == torch::kFloat16;
  return q.is_cuda() && half && q.size(3) <= 256 && q.size(3) % 8 == 0 &&
         at::cuda::getDeviceProperties(q.get_device())->major >= 8;
#else
  return false;
#endif
}

void seed_generator(const Tensor& q, uint64_t seed) {
  at::Generator generator = at::globalContext().defaultGenerator(q.device());
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.set_current_seed(seed);
}

// By at::SDPBackend, which is what libtorch answers with.
constexpr std::array kKernels = {"math", "flash", "memory-efficient", "cudnn"};
constexpr int64_t kFlash = 1;
std::atomic<uint64_t> kernels_in_use{0};

void note_kernel(int64_t kernel) {
  if (kernel >= 0) kernels_in_use.fetch_or(uint64_t{1} << kernel, std::memory_order_relaxed);
}

// How FlashAttention takes rows: each one sequence, or one row of several.
struct FlashRows {
  std::optional<Tensor> cumulative;
  int64_t longest;
  std::optional<int64_t> keys_before;

  FlashRows(const Tensor& q, const Tensor& cumulative_of_packed, int64_t longest_packed,
            int64_t window)
      : longest(cumulative_of_packed.defined() ? longest_packed : q.size(1)) {
    if (cumulative_of_packed.defined()) cumulative = cumulative_of_packed;
    if (window > 0) keys_before = window - 1;
  }

  // [B, S, heads, D], or [S, heads, D] of the packed row, which is the only one.
  Tensor of(const Tensor& x) const { return cumulative ? x.flatten(0, 1) : x; }
  // lse [B, H, S], or [H, S].
  Tensor of_lse(const Tensor& lse) const { return cumulative ? lse.squeeze(0) : lse; }
};

Tensor flash_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                       int64_t window, const PackedSequences& packed, double dropout) {
  note_kernel(kFlash);
  const FlashRows rows(q, packed.cumulative, packed.longest, window);
  const auto output = at::_flash_attention_forward(
      rows.of(q), rows.of(k), rows.of(v), rows.cumulative, rows.cumulative, rows.longest,
      rows.longest, dropout, /*is_causal=*/true, /*return_debug_mask=*/false,
      std::optional<double>(scale), rows.keys_before);
  return std::get<0>(output).view(q.sizes());
}

struct SinkSums {
  Tensor output, lse;  // [B, S, H, D], [B, H, S]
};

SinkSums meet_keys_and_sinks(const FlashRows& rows, const Tensor& q, const Tensor& k,
                             const Tensor& v, const Tensor& sinks, double scale) {
  note_kernel(kFlash);
  const auto result = at::_flash_attention_forward(
      rows.of(q), rows.of(k), rows.of(v), rows.cumulative, rows.cumulative, rows.longest,
      rows.longest, /*dropout_p=*/0, /*is_causal=*/true, /*return_debug_mask=*/false,
      std::optional<double>(scale), rows.keys_before);
  const Tensor of_keys = std::get<1>(result).view({q.size(0), q.size(2), q.size(1)});
  const Tensor lse = at::logaddexp(of_keys, sinks.to(of_keys.scalar_type()).view({1, -1, 1}));
  const Tensor share = (of_keys - lse).exp_().transpose(1, 2).unsqueeze(-1);
  return {(std::get<0>(result).view(q.sizes()) * share).to(q.scalar_type()), lse};
}

class LibrarySinkAttention : public torch::autograd::Function<LibrarySinkAttention> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* ctx, const Tensor& q, const Tensor& k,
                        const Tensor& v, const Tensor& sinks, double scale, int64_t window,
                        const OptionalTensor& cumulative, int64_t longest) {
    const Tensor of_packed = cumulative.value_or(Tensor());
    const FlashRows rows(q, of_packed, longest, window);
    const SinkSums sums = meet_keys_and_sinks(rows, q, k, v, sinks, scale);
    ctx->save_for_backward({q, k, v, sinks, sums.output, sums.lse, of_packed});
    ctx->saved_data["scale"] = scale;
    ctx->saved_data["window"] = window;
    ctx->saved_data["longest"] = longest;
    return sums.output;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &q = saved[0], &k = saved[1], &v = saved[2], &sinks = saved[3];
    const Tensor &output = saved[4], &lse = saved[5];
    const FlashRows rows(q, saved[6], ctx->saved_data["longest"].toInt(),
                         ctx->saved_data["window"].toInt());
    const Tensor d_output = gradients[0].contiguous();
    const Tensor cumulative = rows.cumulative.value_or(Tensor());
    const Tensor no_random_state = torch::zeros({2}, q.options().dtype(torch::kInt64));
    const auto [dq, dk, dv] = at::_flash_attention_backward(
        rows.of(d_output), rows.of(q), rows.of(k), rows.of(v), rows.of(output), rows.of_lse(lse),
        cumulative, cumulative, rows.longest, rows.longest, /*dropout_p=*/0, /*is_causal=*/true,
        no_random_state, no_random_state,
        std::optional<double>(ctx->saved_data["scale"].toDouble()), rows.keys_before);
    Tensor d_sinks;
    if (sinks.requires_grad()) {
      d_sinks = gradient_of_sinks(sinks.detach().to(lse.scalar_type()), d_output, output, lse)
                    .to(sinks.scalar_type());
    }
    const Tensor none;
    return {dq.view(q.sizes()),
            dk.view(k.sizes()),
            dv.view(v.sizes()),
            d_sinks,
            none,
            none,
            none,
            none};
  }
};

// [B, S, heads, D]. float32 has one fused kernel, the memory-efficient one, which wants as many
// heads of keys as of queries. Without it all scores would be in memory.
Tensor causal_sdpa(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                   double dropout) {
  const bool repeats = q.scalar_type() == torch::kFloat32 && k.size(2) < q.size(2);
  const auto heads_first = [&](const Tensor& x) {
    const Tensor whole = repeats ? x.repeat_interleave(q.size(2) / x.size(2), 2) : x;
    return whole.transpose(1, 2);
  };
  const Tensor queries = q.transpose(1, 2), keys = heads_first(k), values = heads_first(v);
  // Which of its kernels libtorch takes depends on shapes, the GPU and cuDNN's version.
  note_kernel(at::_fused_sdp_choice(queries, keys, values, /*attn_mask=*/{}, dropout,
                                    /*is_causal=*/true, scale, /*enable_gqa=*/true));
  return at::scaled_dot_product_attention(queries, keys, values, /*attn_mask=*/{}, dropout,
                                          /*is_causal=*/true, scale, /*enable_gqa=*/true)
      .transpose(1, 2);
}

std::atomic<AttentionRows> planned_rows{AttentionRows{}};

bool is_planned(const Tensor& q) {
  const AttentionRows planned = planned_rows.load(std::memory_order_relaxed);
  return planned.batch == q.size(0) && planned.length == q.size(1);
}

// A block as FlashAttention takes it: which queries see any key, and the window that ends where the
// last of them and the last key are level.
struct FlashBlock {
  RowSegment queries, keys;
  bool causal;
  std::optional<int64_t> keys_before;

  FlashBlock(const AttentionBlock& block, int64_t window)
      : queries(block.queries), keys(block.keys), causal(queries.position == keys.position) {
    if (window == 0) return;
    if (causal) {
      keys_before = window - 1;
      return;
    }
    const int64_t distance = queries.position - keys.position;
    queries.length = std::min(queries.length, keys.length + window - 1 - distance);
    keys_before = keys.length - queries.length + window - 1 - distance;
  }

  Tensor of_queries(const Tensor& x) const { return x.narrow(1, queries.begin, queries.length); }
  Tensor of_keys(const Tensor& x) const { return x.narrow(1, keys.begin, keys.length); }
  // Of lse [B, H, S].
  Tensor of_lse(const Tensor& x) const { return x.narrow(2, queries.begin, queries.length); }
};

}  // namespace

bool has_library_sinks(const Tensor& q, const ScoreTerms& terms, const Dropout& dropout) {
  return has_flash_attention(q) && terms.sinks.defined() && !terms.slopes.defined() &&
         terms.cap == 0 && dropout.probability == 0;
}

Tensor library_sink_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& sinks, double scale, int64_t window,
                              const PackedSequences& packed) {
  const auto wants_gradient = [](const Tensor& x) { return x.requires_grad(); };
  const std::array inputs = {q, k, v, sinks};
  if (!torch::GradMode::is_enabled() ||
      std::none_of(inputs.begin(), inputs.end(), wants_gradient)) {
    const FlashRows rows(q, packed.cumulative, packed.longest, window);
    return meet_keys_and_sinks(rows, q, k, v, sinks, scale).output;
  }
  const auto cumulative =
      packed.cumulative.defined() ? OptionalTensor(packed.cumulative) : OptionalTensor();
  return LibrarySinkAttention::apply(q, k, v, sinks, scale, window, cumulative, packed.longest);
}

bool has_library_blocks(const Tensor& q, const PartAttention& attention) {
  return has_flash_attention(q) && !attention.slopes.defined() && attention.cap == 0 &&
         attention.dropout.probability == 0;
}

void meet_by_library(AttentionSums& sums, const Tensor& q, const Tensor& k, const Tensor& v,
                     const std::vector<AttentionBlock>& blocks, const PartAttention& attention) {
  note_kernel(kFlash);
  for (const AttentionBlock& one : blocks) {
    const FlashBlock block(one, attention.window);
    if (block.queries.length <= 0) continue;  // the window ends behind all keys
    const auto result = at::_flash_attention_forward(
        block.of_queries(q), block.of_keys(k), block.of_keys(v), /*cum_seq_q=*/{}, /*cum_seq_k=*/{},
        block.queries.length, block.keys.length, /*dropout_p=*/0, block.causal,
        /*return_debug_mask=*/false, std::optional<double>(attention.scale), block.keys_before);
    const Tensor &met = std::get<0>(result), &met_lse = std::get<1>(result);  // lse [B, H, n]
    const Tensor lse = block.of_lse(sums.lse), output = block.of_queries(sums.output);
    const Tensor both = at::logaddexp(lse, met_lse);
    const auto share = [&](const Tensor& part) {
      return (part - both).exp_().transpose(1, 2).unsqueeze(-1);
    };
    output.mul_(share(lse)).addcmul_(met.to(output.scalar_type()), share(met_lse));
    lse.copy_(both);
  }
}

void add_gradients_by_library(AttentionGradients& gradients, const Tensor& output_gradient,
                              const Tensor& q, const Tensor& k, const Tensor& v,
                              const Tensor& output, const Tensor& lse,
                              const std::vector<AttentionBlock>& blocks,
                              const PartAttention& attention) {
  const Tensor no_random_state = torch::zeros({2}, q.options().dtype(torch::kInt64));
  for (const AttentionBlock& one : blocks) {
    const FlashBlock block(one, attention.window);
    if (block.queries.length <= 0) continue;  // the window ends behind all keys
    const auto [dq, dk, dv] = at::_flash_attention_backward(
        block.of_queries(output_gradient), block.of_queries(q), block.of_keys(k), block.of_keys(v),
        block.of_queries(output), block.of_lse(lse).contiguous(), /*cum_seq_q=*/{},
        /*cum_seq_k=*/{}, block.queries.length, block.keys.length, /*dropout_p=*/0, block.causal,
        no_random_state, no_random_state, std::optional<double>(attention.scale),
        block.keys_before);
    block.of_queries(gradients.q).add_(dq);
    block.of_keys(gradients.k).add_(dk);
    block.of_keys(gradients.v).add_(dv);
  }
}

std::vector<std::string> library_attention_in_use() {
  std::vector<std::string> names;
  for (size_t i = 0; i < kKernels.size(); ++i)
    if (kernels_in_use.load(std::memory_order_relaxed) >> i & 1) names.emplace_back(kKernels[i]);
  return names;
}

void plan_attention_for(AttentionRows rows) {
  planned_rows.store(rows, std::memory_order_relaxed);
}

bool has_library_attention(const Tensor& q, int64_t window, const PackedSequences& packed) {
  if (!q.is_cuda()) return false;
  if (has_flash_attention(q)) return true;
  const int64_t longest = packed.empty() ? q.size(1) : packed.longest;
  return window == 0 || window >= longest;
}

Tensor library_attention(const Tensor& q, const Tensor& k, const Tensor& v, double scale,
                         int64_t window, const PackedSequences& packed, const Dropout& dropout) {
  const double p = dropout.probability;
  if (p > 0) seed_generator(q, dropout.seed);
  const bool windowed = window > 0 && window < q.size(1);
  const bool may_be_planned = packed.empty() && !windowed && is_planned(q);
  if (has_flash_attention(q) && !may_be_planned)
    return flash_attention(q, k, v, scale, window, packed, p);
  if (packed.empty()) return causal_sdpa(q, k, v, scale, p);
  std::vector<Tensor> outputs;
  for (size_t i = 0; i + 1 < packed.offsets.size(); ++i) {
    const auto sequence = [&](const Tensor& x) {
      return x.slice(1, packed.offsets[i], packed.offsets[i + 1]);
    };
    outputs.push_back(causal_sdpa(sequence(q), sequence(k), sequence(v), scale, p));
  }
  return torch::cat(outputs, 1);
}

#else

void plan_attention_for(AttentionRows) {}

std::vector<std::string> library_attention_in_use() {
  return {};
}

bool has_library_attention(const torch::Tensor&, int64_t, const PackedSequences&) {
  return false;
}

torch::Tensor library_attention(const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                                double, int64_t, const PackedSequences&, const Dropout&) {
  throw std::logic_error("library_attention: libtorch 1.13 has none");
}

bool has_library_sinks(const torch::Tensor&, const ScoreTerms&, const Dropout&) {
  return false;
}

torch::Tensor library_sink_attention(const torch::Tensor&, const torch::Tensor&,
                                     const torch::Tensor&, const torch::Tensor&, double, int64_t,
                                     const PackedSequences&) {
  throw std::logic_error("library_sink_attention: libtorch 1.13 has no attention");
}

bool has_library_blocks(const torch::Tensor&, const PartAttention&) {
  return false;
}

void meet_by_library(AttentionSums&, const torch::Tensor&, const torch::Tensor&,
                     const torch::Tensor&, const std::vector<AttentionBlock>&,
                     const PartAttention&) {
  throw std::logic_error("meet_by_library: libtorch 1.13 has no attention");
}

void add_gradients_by_library(AttentionGradients&, const torch::Tensor&, const torch::Tensor&,
                              const torch::Tensor&, const torch::Tensor&, const torch::Tensor&,
                              const torch::Tensor&, const std::vector<AttentionBlock>&,
                              const PartAttention&) {
  throw std::logic_error("add_gradients_by_library: libtorch 1.13 has no attention");
}

#endif

}  // namespace sftbench::ops
