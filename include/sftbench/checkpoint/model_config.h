// What a Hugging Face config.json says about a decoder-only model, checked and with Hugging Face's
// defaults filled in (LlamaConfig, MistralConfig, GraniteConfig of transformers 5; both its
// `rope_parameters` and the older `rope_theta` + `rope_scaling`). Knows no libtorch: what is read
// is untrusted and fuzzed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/checkpoint/gptq.h"

namespace sftbench {

enum class ModelFamily { kLlama, kMistral, kGranite };

enum class RopeType {
  kDefault,  // Su et al. 2021
  kLinear,   // position interpolation, Chen et al. 2023
  kDynamic,  // NTK-aware, base grows with the sequence
  kLlama3,   // by wavelength, Llama 3.1
  kYarn,     // Peng et al. 2023
};

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  double factor = 1.0;                           // all but kDefault
  int64_t original_max_position_embeddings = 0;  // kLlama3, kYarn: length of pre-training
  double low_freq_factor = 1.0;                  // kLlama3
  double high_freq_factor = 4.0;                 // kLlama3
  double beta_fast = 32.0;                       // kYarn: rotations above which a frequency is kept
  double beta_slow = 1.0;                        // kYarn: rotations below which it is interpolated
  bool truncate = true;  // kYarn: round the bounds of the ramp to whole dimensions
  // kYarn: factor on cosines and sines; when absent, the paper's 0.1 ln(factor) + 1, or the ratio
  // of the two mscale values where both are given.
  std::optional<double> attention_factor;
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
};

struct ModelConfig {
  ModelFamily family = ModelFamily::kLlama;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;
  int64_t head_dim = 0;
  int64_t max_position_embeddings = 0;
  double rms_norm_eps = 1e-6;
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  bool attention_bias = false;  // kLlama, kGranite
  bool mlp_bias = false;        // kLlama, kGranite
  int64_t sliding_window = 0;   // kMistral: keys that a query sees; 0: all

  // kGranite; for the others the values that change nothing.
  double embedding_multiplier = 1.0;
  double residual_multiplier = 1.0;
  double attention_multiplier = 1.0;  // factor on the attention scores, instead of head_dim^-1/2
  double logits_scaling = 1.0;        // logits are divided by it

  RopeConfig rope;

  std::optional<GptqConfig> gptq;  // how the linears of the layers are quantized, if they are

  // The embedding's padding row: starts as zero and gets no gradient through the embedding.
  std::optional<int64_t> pad_token_id;
  // The share of attention probabilities that training drops, as Hugging Face does.
  double attention_dropout = 0.0;
  std::string
      dtype;  // "bfloat16": what the weights are stored in; empty when the file does not say
};

// The model types that can be built: "granite", "llama", "mistral".
const std::vector<std::string>& known_model_types();

// InputError naming `origin`, all findings at once, each with key, what was found and what is
// expected: an unknown model type or architecture, missing or impossible sizes, an activation or
// RoPE type that is not built, a quantization other than GPTQ. `pretraining_tp` is ignored as in
// transformers >= 4.48: it only split sums.
ModelConfig parse_model_config(const Json& hf_config, const std::string& origin = "config.json");

}  // namespace sftbench
