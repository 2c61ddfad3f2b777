#include "model/llama.h"

#include <cmath>

namespace sftbench {
namespace {

torch::Tensor run_layer(const DecoderLayer& layer, const torch::Tensor& x,
                        const RotaryTables& rope) {
  const torch::Tensor h = x + layer.self_attn.forward(layer.input_layernorm.forward(x), rope);
  return h + layer.mlp.forward(layer.post_attention_layernorm.forward(h));
}

}  // namespace

Llama::Llama(const ModelConfig& config, const ops::KernelChoice& kernels,
             torch::TensorOptions options)
    : Llama(config, ops::kAllKeys, kernels, options) {}

Llama::Llama(const ModelConfig& config, int64_t window, const ops::KernelChoice& kernels,
             torch::TensorOptions options)
    : Decoder(config, kernels, 1.0 / std::sqrt(static_cast<double>(config.head_dim)), window,
              options) {}

torch::Tensor Llama::hidden_states(const TokenRows& rows, LayerRunner& runner) {
  torch::Tensor x_BSH = embed(rows.input_ids);
  const RotaryTables rope = rotary_emb_.tables(x_BSH.size(1), x_BSH.options(), rows.packed);
  for (size_t i = 0; i < layers_.size(); ++i) {
    const DecoderLayer& layer = layers_[i];
    // The tables are captured by value: a recomputed layer runs again during the backward pass.
    x_BSH = runner.run(
        static_cast<int64_t>(i),
        [&layer, rope](const torch::Tensor& x) { return run_layer(layer, x, rope); }, x_BSH);
  }
  return norm_.forward(x_BSH);
}

}  // namespace sftbench
