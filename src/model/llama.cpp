#include "model/llama.h"

#include "sftbench/base/torch.h"

namespace sftbench {

Llama::Llama(const ModelConfig& config, const ops::KernelChoice& kernels,
             torch::TensorOptions options)
    : Decoder(config, kernels, options),
      norm_(config.hidden_size, config.norm_eps, kernels, options),
      rotary_emb_(config) {
  const auto norm = [&] { return RmsNorm(config.hidden_size, config.norm_eps, kernels, options); };
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layers_.push_back({norm(), SelfAttention(config, i, kernels, pass(), options), norm(),
                       std::make_unique<GatedMlp>(config, options)});
  }
}

RotaryTables Llama::positions(const torch::Tensor& x_BSH, const TokenRows& rows) {
  return rotary_emb_.tables(x_BSH.size(1), x_BSH.options(), rows.packed);
}

torch::Tensor Llama::run_layer(int64_t index, const torch::Tensor& x,
                               const RotaryTables& positions) const {
  const Layer& layer = this->layer(index);
  const double residual = config().multipliers.residual;
  // add(y, a) is x + a y in one pass over memory.
  const torch::Tensor h =
      x.add(layer.self_attn.forward(layer.input_layernorm.forward(x), positions), residual);
  return h.add(layer.mlp->forward(layer.post_attention_layernorm.forward(h)), residual);
}

void Llama::append_layer_parameters(int64_t index, const std::string& name,
                                    std::vector<NamedParameter>& parameters) {
  Layer& layer = this->layer(index);
  layer.input_layernorm.append_parameters(name + ".input_layernorm", parameters);
  layer.self_attn.append_parameters(name + ".self_attn", parameters);
  layer.post_attention_layernorm.append_parameters(name + ".post_attention_layernorm", parameters);
  layer.mlp->append_parameters(name + ".mlp", parameters);
}

void Llama::append_layer_groups(int64_t index, const std::string& name,
                                std::vector<NamedLinearGroup>& groups) {
  layer(index).self_attn.append_groups(name + ".self_attn", groups);
  layer(index).mlp->append_groups(name + ".mlp", groups);
}

void Llama::append_norm_parameters(const std::string& name,
                                   std::vector<NamedParameter>& parameters) {
  norm_.append_parameters(name, parameters);
}

}  // namespace sftbench
