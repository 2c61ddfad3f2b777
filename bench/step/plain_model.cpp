#include "step/plain_model.h"

#include <cmath>
#include <limits>

namespace sftbench::bench {
namespace {

namespace F = torch::nn::functional;
using torch::Tensor;

// LlamaRMSNorm.forward
Tensor rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  const Tensor x32 = x.to(torch::kFloat32);
  const Tensor variance = x32.pow(2).mean(-1, /*keepdim=*/true);
  return weight * (x32 * torch::rsqrt(variance + epsilon)).to(x.scalar_type());
}

Tensor rotate_half(const Tensor& x) {
  const std::vector<Tensor> halves = x.chunk(2, -1);
  return torch::cat({-halves[1], halves[0]}, -1);
}

// apply_rotary_pos_emb
Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  return x * cos + rotate_half(x) * sin;
}

// repeat_kv
Tensor repeat_kv(const Tensor& x, int64_t times) {
  const int64_t B = x.size(0), K = x.size(1), S = x.size(2), D = x.size(3);
  return x.unsqueeze(2).expand({B, K, times, S, D}).reshape({B, K * times, S, D});
}

}  // namespace

PlainLlama::PlainLlama(const LlamaShape& shape, torch::Dtype dtype) : shape_(shape) {
  const auto weight = [&](int64_t rows, int64_t columns) {
    return (torch::randn({rows, columns}) * 0.02).to(dtype).requires_grad_(true);
  };
  const auto ones = [&] { return torch::ones({shape.hidden}, dtype).requires_grad_(true); };
  const int64_t q = shape.heads * shape.head_dim, kv = shape.kv_heads * shape.head_dim;
  embedding_ = weight(shape.vocabulary, shape.hidden);
  for (int64_t i = 0; i < shape.layers; ++i) {
    layers_.push_back({weight(q, shape.hidden), weight(kv, shape.hidden), weight(kv, shape.hidden),
                       weight(shape.hidden, q), weight(shape.intermediate, shape.hidden),
                       weight(shape.intermediate, shape.hidden),
                       weight(shape.hidden, shape.intermediate), ones(), ones()});
  }
  final_norm_ = ones();
}

std::vector<Tensor> PlainLlama::parameters() const {
  std::vector<Tensor> all = {embedding_};
  for (const Layer& l : layers_) {
    for (const Tensor& t :
         {l.q, l.k, l.v, l.o, l.gate, l.up, l.down, l.input_norm, l.post_attention_norm}) {
      all.push_back(t);
    }
  }
  all.push_back(final_norm_);
  return all;
}

// LlamaAttention.forward with eager_attention_forward
Tensor PlainLlama::attention(const Layer& layer, const Tensor& x_BSH, const Tensor& cos,
                             const Tensor& sin, const Tensor& mask) const {
  const int64_t B = x_BSH.size(0), S = x_BSH.size(1), D = shape_.head_dim;
  const auto heads = [&](const Tensor& weight) {
    return F::linear(x_BSH, weight).view({B, S, -1, D}).transpose(1, 2);
  };
  const Tensor q = rotate(heads(layer.q), cos, sin);
  const int64_t repeats = shape_.heads / shape_.kv_heads;
  const Tensor k = repeat_kv(rotate(heads(layer.k), cos, sin), repeats);
  const Tensor v = repeat_kv(heads(layer.v), repeats);
  Tensor scores = torch::matmul(q, k.transpose(2, 3)) * (1.0 / std::sqrt(static_cast<double>(D)));
  scores = scores + mask;
  scores = torch::softmax(scores, -1, torch::kFloat32).to(q.scalar_type());
  const Tensor out = torch::matmul(scores, v).transpose(1, 2).contiguous().reshape({B, S, -1});
  return F::linear(out, layer.o);
}

Tensor PlainLlama::loss(const Tensor& input_ids, const Tensor& labels) const {
  const int64_t S = input_ids.size(1), D = shape_.head_dim;
  const auto dtype = embedding_.scalar_type();
  const Tensor inverse_frequency = torch::pow(
      shape_.rope_theta, -torch::arange(0, D, 2, torch::kFloat32) / static_cast<double>(D));
  const Tensor angles = torch::outer(torch::arange(S, torch::kFloat32), inverse_frequency);
  const Tensor both = torch::cat({angles, angles}, -1);
  const Tensor cos = both.cos().to(dtype), sin = both.sin().to(dtype);
  const Tensor mask =
      torch::full({S, S},
                  dtype == torch::kFloat32 ? std::numeric_limits<float>::lowest() : -3.3895e38,
                  dtype)
          .triu(1);

  Tensor x = F::embedding(input_ids, embedding_);
  for (const Layer& layer : layers_) {
    x = x + attention(layer, rms_norm(x, layer.input_norm, shape_.norm_epsilon), cos, sin, mask);
    const Tensor h = rms_norm(x, layer.post_attention_norm, shape_.norm_epsilon);
    x = x + F::linear(F::silu(F::linear(h, layer.gate)) * F::linear(h, layer.up), layer.down);
  }
  x = rms_norm(x, final_norm_, shape_.norm_epsilon);

  // ForCausalLMLoss: float32 logits, labels padded and shifted.
  const Tensor logits = F::linear(x, embedding_).to(torch::kFloat32);
  const Tensor shifted = F::pad(labels, F::PadFuncOptions({0, 1}).value(-100)).slice(1, 1);
  return F::cross_entropy(logits.view({-1, shape_.vocabulary}), shifted.reshape({-1}));
}

}  // namespace sftbench::bench
