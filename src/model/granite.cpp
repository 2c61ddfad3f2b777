#include "model/granite.h"

namespace sftbench {
namespace {

torch::Tensor run_layer(const DecoderLayer& layer, const torch::Tensor& x, const RotaryTables& rope,
                        double residual_multiplier) {
  // add(y, a) is x + a y in one pass over memory.
  const torch::Tensor h =
      x.add(layer.self_attn.forward(layer.input_layernorm.forward(x), rope), residual_multiplier);
  return h.add(layer.mlp.forward(layer.post_attention_layernorm.forward(h)), residual_multiplier);
}

}  // namespace

Granite::Granite(const ModelConfig& config, const ops::KernelChoice& kernels,
                 torch::TensorOptions options)
    : Decoder(config, kernels, config.attention_multiplier, ops::kAllKeys, options) {}

torch::Tensor Granite::hidden_states(const TokenRows& rows, LayerRunner& runner) {
  torch::Tensor x_BSH = embed(rows.input_ids) * config().embedding_multiplier;
  const RotaryTables rope = rotary_emb_.tables(x_BSH.size(1), x_BSH.options(), rows.packed);
  const double residual_multiplier = config().residual_multiplier;
  for (size_t i = 0; i < layers_.size(); ++i) {
    const DecoderLayer& layer = layers_[i];
    // The tables are captured by value: a recomputed layer runs again during the backward pass.
    x_BSH = runner.run(
        static_cast<int64_t>(i),
        [&layer, rope, residual_multiplier](const torch::Tensor& x) {
          return run_layer(layer, x, rope, residual_multiplier);
        },
        x_BSH);
  }
  return norm_.forward(x_BSH);
}

}  // namespace sftbench
