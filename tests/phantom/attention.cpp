// Attention of the phantom device: what libtorch's fused CUDA kernels compute, written out in
// float32 for one sequence and one head group after the other.
#include <torch/library.h>

#include <tuple>
#include <vector>

#include "phantom/attention.h"
#include "phantom/host_view.h"
#include "phantom/recorded.h"
#include "phantom/traffic.h"

namespace sftbench::phantom {
namespace {

using torch::Tensor;

struct Mask {
  bool causal = false;
  int64_t before = -1;  // keys before a query that it sees; -1: all
  double scale = 1;
  double dropout = 0;
  int64_t seed = 0;
};

// Of one sequence: q [heads, Sq, D], k and v [groups, Sk, D], on the host, in float32.
struct Sequence {
  Tensor q, k, v;

  Sequence(const Tensor& queries, const Tensor& keys, const Tensor& values)
      : q(queries.to(torch::kFloat32)),
        k(repeated(keys.to(torch::kFloat32))),
        v(repeated(values.to(torch::kFloat32))) {}

  Tensor repeated(const Tensor& x) const { return x.repeat_interleave(q.size(0) / x.size(0), 0); }

  Tensor scores(const Mask& mask) const {
    Tensor s = at::matmul(q, k.transpose(1, 2)) * mask.scale;
    const int64_t queries = s.size(1), keys = s.size(2);
    const Tensor distance = at::arange(queries).unsqueeze(1) + (keys - queries) - at::arange(keys);
    if (mask.causal) s.masked_fill_(distance < 0, -INFINITY);
    if (mask.before >= 0) s.masked_fill_(distance > mask.before, -INFINITY);
    return s;
  }

  // What probabilities are multiplied with: 0, or 1 / (1 - p).
  Tensor kept(const Mask& mask, int64_t number) const {
    if (mask.dropout == 0) return at::ones({});
    at::Generator generator = at::globalContext().defaultGenerator(c10::kCPU).clone();
    generator.set_current_seed(static_cast<uint64_t>(mask.seed * 4099 + number));
    const Tensor drawn = at::rand({q.size(0), q.size(1), k.size(1)}, generator, at::kFloat);
    return (drawn >= mask.dropout).to(torch::kFloat32) / (1 - mask.dropout);
  }
};

// [heads, S, D] and [heads, S]
std::pair<Tensor, Tensor> forward(const Sequence& one, const Mask& mask, int64_t number) {
  const Tensor scores = one.scores(mask);
  const Tensor lse = at::logsumexp(scores, {2});
  const Tensor p = (scores - lse.unsqueeze(2)).exp() * one.kept(mask, number);
  return {at::matmul(p, one.v), lse};
}

Tensor summed(const Tensor& x, int64_t groups) {
  return x.view({groups, x.size(0) / groups, x.size(1), x.size(2)}).sum(1);
}

struct Gradients {
  Tensor q, k, v;
};

// What the forward pass led to, which the real kernels begin from: these need not be the results of
// this sequence alone, where its keys are a part of all.
struct Results {
  Tensor output, lse;  // [heads, S, D], [heads, S]
};

Gradients backward(const Sequence& one, const Tensor& grad, const Results& results, int64_t groups,
                   const Mask& mask, int64_t number) {
  const Tensor p = (one.scores(mask) - results.lse.unsqueeze(2)).exp();
  const Tensor kept = one.kept(mask, number);
  const Tensor delta = (grad * results.output.to(torch::kFloat32)).sum(2, true);
  const Tensor dv = at::matmul((p * kept).transpose(1, 2), grad);
  const Tensor dp = at::matmul(grad, one.v.transpose(1, 2)) * kept;
  const Tensor ds = p * (dp - delta) * mask.scale;
  return {at::matmul(ds, one.k), summed(at::matmul(ds.transpose(1, 2), one.q), groups),
          summed(dv, groups)};
}

double scale_of(const Tensor& q, c10::optional<double> scale) {
  return scale.value_or(1.0 / std::sqrt(static_cast<double>(q.size(-1))));
}

Tensor seed_tensor(const Tensor& q) {
  return at::empty({2}, q.options().dtype(torch::kInt64));
}

int64_t next_seed() {
  const at::Generator generator = at::globalContext().defaultGenerator(c10::Device(c10::kCUDA, 0));
  return static_cast<int64_t>(generator.current_seed());
}

int64_t read_seed(const Tensor& state) {
  return host_view(state).data_ptr<int64_t>()[0];
}

// --- [B, heads, S, D] ----------------------------------------------------------------------------

std::pair<Tensor, Tensor> dense_forward(const Tensor& q, const Tensor& k, const Tensor& v,
                                        const Mask& mask) {
  const Tensor hq = host_view(q), hk = host_view(k), hv = host_view(v);
  // Laid out as the real kernels do: heads behind positions.
  const Tensor output =
      at::empty({q.size(0), q.size(2), q.size(1), q.size(3)}, q.options()).transpose(1, 2);
  const Tensor lse =
      at::empty({q.size(0), q.size(1), q.size(2)}, q.options().dtype(torch::kFloat32));
  for (int64_t b = 0; b < q.size(0); ++b) {
    const auto [out, sums] = forward(Sequence(hq[b], hk[b], hv[b]), mask, b);
    host_view(output)[b].copy_(out);
    host_view(lse)[b].copy_(sums);
  }
  return {output, lse};
}

// lse [B, heads, S], which a real kernel may have padded.
Gradients dense_backward(const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v,
                         const Results& results, const Mask& mask) {
  const Gradients result{at::empty_like(q), at::empty_like(k), at::empty_like(v)};
  const Tensor hq = host_view(q), hk = host_view(k), hv = host_view(v), hg = host_view(grad);
  const Tensor output = host_view(results.output), lse = host_view(results.lse);
  for (int64_t b = 0; b < q.size(0); ++b) {
    const Gradients one = backward(Sequence(hq[b], hk[b], hv[b]), hg[b].to(torch::kFloat32),
                                   {output[b], lse[b]}, k.size(1), mask, b);
    host_view(result.q)[b].copy_(one.q);
    host_view(result.k)[b].copy_(one.k);
    host_view(result.v)[b].copy_(one.v);
  }
  return result;
}

using Flash =
    std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor>;

Flash flash(const Tensor& q, const Tensor& k, const Tensor& v, double dropout, bool causal, bool,
            c10::optional<double> scale) {
  const Tensor state = seed_tensor(q);
  host_view(state).fill_(next_seed());
  auto [output, lse] =
      dense_forward(q, k, v, {causal, -1, scale_of(q, scale), dropout, read_seed(state)});
  return {output, lse, Tensor(), Tensor(), q.size(2), k.size(2), state, Tensor(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> flash_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& output,
    const Tensor& lse, const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, double dropout,
    bool causal, const Tensor& state, const Tensor&, c10::optional<double> scale) {
  const Gradients result = dense_backward(
      grad, q, k, v, {output, lse}, {causal, -1, scale_of(q, scale), dropout, read_seed(state)});
  return {result.q, result.k, result.v};
}

// cuDNN's, which has an argument and two results that flash attention has not.
Flash cudnn(const Tensor& q, const Tensor& k, const Tensor& v, const c10::optional<Tensor>& bias,
            bool with_lse, double dropout, bool causal, bool, c10::optional<double> scale) {
  TORCH_CHECK(!bias || !bias->defined(), "phantom device: no attention with a bias");
  note_attention(with_lse ? "cudnn" : "cudnn-without-lse", q);
  const Tensor state = seed_tensor(q);
  host_view(state).fill_(next_seed());
  auto [output, lse] =
      dense_forward(q, k, v, {causal, -1, scale_of(q, scale), dropout, read_seed(state)});
  return {output,    with_lse ? lse.unsqueeze(-1) : Tensor(),
          Tensor(),  Tensor(),
          q.size(2), k.size(2),
          state,     state,
          Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> cudnn_backward(const Tensor& grad, const Tensor& q,
                                                  const Tensor& k, const Tensor& v,
                                                  const Tensor& output, const Tensor& lse,
                                                  const Tensor& state, const Tensor&, const Tensor&,
                                                  const Tensor&, const Tensor&, c10::SymInt,
                                                  c10::SymInt, double dropout, bool causal,
                                                  c10::optional<double> scale) {
  note_attention("cudnn-backward", q);
  const Gradients result =
      dense_backward(grad, q, k, v, {output, lse.squeeze(-1)},
                     {causal, -1, scale_of(q, scale), dropout, read_seed(state)});
  return {result.q, result.k, result.v};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient(const Tensor& q, const Tensor& k,
                                                     const Tensor& v,
                                                     const c10::optional<Tensor>& bias, bool,
                                                     double dropout, bool causal,
                                                     c10::optional<double> scale) {
  TORCH_CHECK(!bias || !bias->defined(), "phantom device: no attention with a bias");
  const Tensor state = seed_tensor(q);
  host_view(state).fill_(next_seed());
  auto [output, lse] =
      dense_forward(q, k, v, {causal, -1, scale_of(q, scale), dropout, read_seed(state)});
  return {output, lse, state, state};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> efficient_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor&,
    const Tensor& output, const Tensor& lse, const Tensor& state, const Tensor&, double dropout,
    std::array<bool, 4>, bool causal, c10::optional<double> scale) {
  const Gradients result = dense_backward(
      grad, q, k, v, {output, lse}, {causal, -1, scale_of(q, scale), dropout, read_seed(state)});
  return {result.q, result.k, result.v, Tensor()};
}

// --- [T, heads, D], sequences one behind the other; or [B, S, heads, D] --------------------------

std::vector<int64_t> offsets_of(const c10::optional<Tensor>& cumulative) {
  const Tensor host = host_view(*cumulative).to(torch::kInt64);
  return {host.data_ptr<int64_t>(), host.data_ptr<int64_t>() + host.numel()};
}

// [T, heads, D] -> [heads, S, D] of one sequence
Tensor piece(const Tensor& x, const std::vector<int64_t>& offsets, size_t i) {
  return host_view(x).slice(0, offsets[i], offsets[i + 1]).transpose(0, 1);
}

using Varlen = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;

Varlen varlen(const Tensor& q, const Tensor& k, const Tensor& v,
              const c10::optional<Tensor>& cumulative_q, const c10::optional<Tensor>& cumulative_k,
              c10::SymInt, c10::SymInt, double dropout, bool causal, bool,
              c10::optional<double> scale, c10::optional<c10::SymInt> left,
              c10::optional<c10::SymInt>, const c10::optional<Tensor>&,
              const c10::optional<Tensor>&) {
  note_attention("flash", q.dim() == 4 ? q.transpose(1, 2) : q.transpose(0, 1).unsqueeze(0));
  const Tensor state = seed_tensor(q);
  host_view(state).fill_(next_seed());
  const int64_t before = left ? left->expect_int() : -1;
  const Mask mask{causal, before, scale_of(q, scale), dropout, read_seed(state)};
  if (!cumulative_q || !cumulative_q->defined()) {
    const auto [output, lse] =
        dense_forward(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), mask);
    return {output.transpose(1, 2), lse, state, Tensor(), Tensor()};
  }
  const auto queries = offsets_of(cumulative_q), keys = offsets_of(cumulative_k);
  const Tensor output = at::empty_like(q);
  const Tensor lse = at::empty({q.size(1), q.size(0)}, q.options().dtype(torch::kFloat32));
  for (size_t i = 0; i + 1 < queries.size(); ++i) {
    const auto [out, sums] =
        forward(Sequence(piece(q, queries, i), piece(k, keys, i), piece(v, keys, i)), mask,
                static_cast<int64_t>(i));
    piece(output, queries, i).copy_(out);
    host_view(lse).slice(1, queries[i], queries[i + 1]).copy_(sums);
  }
  return {output, lse, state, Tensor(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor> varlen_backward(
    const Tensor& grad, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& output,
    const Tensor& lse, const Tensor& cumulative_q, const Tensor& cumulative_k, c10::SymInt,
    c10::SymInt, double dropout, bool causal, const Tensor& state, const Tensor&,
    c10::optional<double> scale, c10::optional<c10::SymInt> left, c10::optional<c10::SymInt>) {
  const int64_t before = left ? left->expect_int() : -1;
  const Mask mask{causal, before, scale_of(q, scale), dropout, read_seed(state)};
  if (!cumulative_q.defined()) {
    const auto heads_first = [](const Tensor& x) { return x.transpose(1, 2); };
    const Gradients result = dense_backward(heads_first(grad), heads_first(q), heads_first(k),
                                            heads_first(v), {heads_first(output), lse}, mask);
    return {heads_first(result.q), heads_first(result.k), heads_first(result.v)};
  }
  const auto queries = offsets_of(cumulative_q), keys = offsets_of(cumulative_k);
  const Gradients result{at::zeros_like(q), at::zeros_like(k), at::zeros_like(v)};
  for (size_t i = 0; i + 1 < queries.size(); ++i) {
    const Gradients one =
        backward(Sequence(piece(q, queries, i), piece(k, keys, i), piece(v, keys, i)),
                 piece(grad, queries, i).to(torch::kFloat32),
                 {piece(output, queries, i), host_view(lse).slice(1, queries[i], queries[i + 1])},
                 k.size(1), mask, static_cast<int64_t>(i));
    piece(result.q, queries, i).copy_(one.q);
    piece(result.k, keys, i).copy_(one.k);
    piece(result.v, keys, i).copy_(one.v);
  }
  return {result.q, result.k, result.v};
}

}  // namespace

void register_attention(torch::Library& library) {
  OnDevice<&flash>::implement(library, "_scaled_dot_product_flash_attention");
  OnDevice<&flash_backward>::implement(library, "_scaled_dot_product_flash_attention_backward");
  OnDevice<&cudnn>::implement(library, "_scaled_dot_product_cudnn_attention");
  OnDevice<&cudnn_backward>::implement(library, "_scaled_dot_product_cudnn_attention_backward");
  OnDevice<&efficient>::implement(library, "_scaled_dot_product_efficient_attention");
  OnDevice<&efficient_backward>::implement(library,
                                           "_scaled_dot_product_efficient_attention_backward");
  OnDevice<&varlen>::implement(library, "_flash_attention_forward");
  OnDevice<&varlen_backward>::implement(library, "_flash_attention_backward");
}

}  // namespace sftbench::phantom
