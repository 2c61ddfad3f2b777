#include "model/decoder.h"

#include "sftbench/base/torch.h"
#include "sftbench/families/family.h"
#include "sftbench/ops/dropout.h"

namespace sftbench {

Decoder::Decoder(const ModelConfig& config, const ops::KernelChoice& kernels,
                 torch::TensorOptions options)
    : CausalLm(config, kernels),
      embedding_(config.vocab_size, config.hidden_size, config.pad_token_id, options) {
  if (!config.tie_word_embeddings)
    output_ = torch::empty({config.vocab_size, config.hidden_size}, options);
}

torch::Tensor Decoder::hidden_states(const TokenRows& rows, LayerRunner& runner) {
  silence_adapters(rows);
  torch::Tensor x_BSH = begin(embed(rows), rows);
  RotaryTables positions = this->positions(x_BSH, rows);
  positions.state = rows.state.get();
  for (int64_t i = 0; i < layer_count(); ++i) {
    // Positions are captured by value: a recomputed layer runs again during the backward pass.
    x_BSH = runner.run(
        i, [this, i, positions](const torch::Tensor& x) { return run_layer(i, x, positions); },
        x_BSH);
  }
  if (rows.state) rows.state->end_pass(x_BSH.size(1));
  return final_norm(x_BSH);
}

// input_ids [B, S] -> [B, P + S, H]: the virtual tokens, where there are any, then the tokens.
torch::Tensor Decoder::embed(const TokenRows& rows) const {
  torch::Tensor tokens_BSH = to_stream_dtype(embedding_.forward(rows.input_ids));
  if (embedding_adapter() != nullptr)
    tokens_BSH = embedding_adapter()->add_to(tokens_BSH, rows.input_ids);
  if (const double factor = config().multipliers.tokens; factor != 1.0) {
    const torch::Tensor rounded =
        torch::tensor(factor, torch::kFloat64).to(tokens_BSH.scalar_type());
    tokens_BSH = tokens_BSH * rounded.item<double>();
  }
  if (!prompt_.defined() || rows.positions_before() > 0) return tokens_BSH;
  const torch::Tensor prompt_BPH =
      prompt_.to(tokens_BSH.scalar_type()).expand({rows.input_ids.size(0), -1, -1});
  return torch::cat({prompt_BPH, tokens_BSH}, 1);
}

torch::Tensor Decoder::begin(const torch::Tensor& x, const TokenRows&) {
  const double factor = config().multipliers.embedding;
  return ops::dropout(factor == 1.0 ? x : x * factor,
                      dropout_at(config().embedding_dropout, kEmbeddingPlace, pass()));
}

RotaryTables Decoder::positions(const torch::Tensor&, const TokenRows& rows) {
  return {{}, {}, rows.packed, rows.part};
}

const torch::Tensor& Decoder::output_weight() const {
  return output_.defined() ? output_ : embedding_.weight();
}

void Decoder::untie_output() {
  if (!output_.defined()) output_ = embedding_.weight().detach().clone();
}

std::string Decoder::layer_name(int64_t index) const {
  return names().layer_prefix + std::to_string(index);
}

std::vector<NamedParameter> Decoder::parameters() {
  std::vector<NamedParameter> parameters;
  embedding_.append_parameters(names().embedding, parameters);
  if (embedding_adapter() != nullptr) embedding_adapter()->append_parameters(parameters);
  append_first_parameters(parameters);
  for (int64_t i = 0; i < layer_count(); ++i) append_layer_parameters(i, layer_name(i), parameters);
  append_norm_parameters(names().final_norm, parameters);
  if (output_.defined()) parameters.push_back({std::string(names().output) + ".weight", &output_});
  if (output_adapter() != nullptr) output_adapter()->append_parameters(parameters);
  if (prompt_.defined()) parameters.push_back({"prompt_embeddings", &prompt_});
  return parameters;
}

void Decoder::append_first_parameters(std::vector<NamedParameter>&) {}

void Decoder::append_first_groups(std::vector<NamedLinearGroup>&) {}

std::vector<NamedLinearGroup> Decoder::linear_groups() {
  std::vector<NamedLinearGroup> groups;
  append_first_groups(groups);
  for (int64_t i = 0; i < layer_count(); ++i) append_layer_groups(i, layer_name(i), groups);
  return groups;
}

}  // namespace sftbench
