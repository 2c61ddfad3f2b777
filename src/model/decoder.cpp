#include "model/decoder.h"

#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

std::string layer_name(size_t index) {
  return "model.layers." + std::to_string(index);
}

void append_layer_parameters(const std::string& name, DecoderLayer& layer,
                             std::vector<NamedParameter>& parameters) {
  layer.input_layernorm.append_parameters(name + ".input_layernorm", parameters);
  layer.self_attn.append_parameters(name + ".self_attn", parameters);
  layer.post_attention_layernorm.append_parameters(name + ".post_attention_layernorm", parameters);
  layer.mlp.append_parameters(name + ".mlp", parameters);
}

}  // namespace

Decoder::Decoder(const ModelConfig& config, const ops::KernelChoice& kernels,
                 double attention_scale, int64_t window, torch::TensorOptions options)
    : CausalLm(config, kernels),
      embed_tokens_(config.vocab_size, config.hidden_size, config.pad_token_id, options),
      norm_(config.hidden_size, config.rms_norm_eps, kernels, options),
      rotary_emb_(config) {
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const AttentionDropout dropout{config.attention_dropout, static_cast<uint64_t>(i), &pass()};
    layers_.push_back({RmsNorm(config.hidden_size, config.rms_norm_eps, kernels, options),
                       SelfAttention(config, attention_scale, window, kernels, dropout, options),
                       RmsNorm(config.hidden_size, config.rms_norm_eps, kernels, options),
                       GatedMlp(config, options)});
  }
  if (!config.tie_word_embeddings)
    lm_head_ = torch::empty({config.vocab_size, config.hidden_size}, options);
}

torch::Tensor Decoder::embed(const torch::Tensor& input_ids) const {
  const torch::Tensor tokens_BSH = to_stream_dtype(embed_tokens_.forward(input_ids));
  if (!prompt_.defined()) return tokens_BSH;
  const torch::Tensor prompt_BPH =
      prompt_.to(tokens_BSH.scalar_type()).expand({input_ids.size(0), -1, -1});
  return torch::cat({prompt_BPH, tokens_BSH}, 1);
}

const torch::Tensor& Decoder::output_weight() const {
  return lm_head_.defined() ? lm_head_ : embed_tokens_.weight();
}

std::vector<NamedParameter> Decoder::parameters() {
  std::vector<NamedParameter> parameters;
  embed_tokens_.append_parameters("model.embed_tokens", parameters);
  for (size_t i = 0; i < layers_.size(); ++i)
    append_layer_parameters(layer_name(i), layers_[i], parameters);
  norm_.append_parameters("model.norm", parameters);
  if (lm_head_.defined()) parameters.push_back({"lm_head.weight", &lm_head_});
  if (prompt_.defined()) parameters.push_back({"prompt_embeddings", &prompt_});
  return parameters;
}

std::vector<NamedLinearGroup> Decoder::linear_groups() {
  std::vector<NamedLinearGroup> groups;
  for (size_t i = 0; i < layers_.size(); ++i) {
    layers_[i].self_attn.append_groups(layer_name(i) + ".self_attn", groups);
    layers_[i].mlp.append_groups(layer_name(i) + ".mlp", groups);
  }
  return groups;
}

}  // namespace sftbench
