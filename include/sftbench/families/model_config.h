// What a Hugging Face config.json says about a decoder-only model, checked and with Hugging Face's
// defaults filled in (the configuration classes of transformers 5; both its `rope_parameters` and
// the older `rope_theta` + `rope_scaling`). Knows no libtorch: what is read is untrusted and fuzzed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/families/gptq.h"
#include "sftbench/families/vision_config.h"

namespace sftbench {

// One enumerator for each row of families() (families/family.h).
enum class ModelFamily {
  kBloom,
  kGemma2,
  kGemma3,
  kGptBigCode,
  kGptNeox,
  kGptOss,
  kGranite,
  kGraniteMoe,
  kGraniteMoeHybrid,
  kGraniteMoeShared,
  kLlama,
  kLlavaNext,
  kMistral,
  kMixtral,
  kOlmo2,
  kPhi3,
  kQwen2,
  kQwen3,
  kSmolLm3,
  kStarcoder2,
};

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

// Grouped-query attention (Ainslie et al. 2023) of every layer.
struct AttentionConfig {
  int64_t heads = 0;            // of queries
  int64_t key_value_heads = 0;  // a divisor of `heads`
  int64_t head_dim = 0;
  bool input_bias = false;   // of the query, key and value projections
  bool output_bias = false;  // of the output projection
  bool head_norms = false;   // RMSNorm over each head of queries and keys (Qwen3)
  bool sinks = false;        // one more score for each head, whose value is zero (gpt_oss)
  double scale = 1.0;        // factor on the scores
  double dropout = 0.0;      // share of the probabilities that training drops
  int64_t window = 0;        // keys that a query sees, its own included; 0: all before it
  // The layers with a window: those of layer_types where config.json has them, else all from
  // `first_window_layer` on.
  int64_t first_window_layer = 0;
  std::vector<bool> windowed;

  int64_t query_width() const { return heads * head_dim; }
  int64_t key_value_width() const { return key_value_heads * head_dim; }
  int64_t window_of(int64_t layer) const {
    const bool has =
        windowed.empty() ? layer >= first_window_layer : windowed[static_cast<size_t>(layer)];
    return has ? window : 0;
  }
};

enum class Activation { kSilu, kGelu, kGeluTanh };  // kGelu by the error function

// A mixture of experts instead of the MLP (Shazeer et al. 2017): each position goes through the
// experts that a router chooses for it. Their width is intermediate_size.
struct ExpertsConfig {
  int64_t count = 0;
  int64_t per_token = 0;  // experts that a position goes through
  // Mixtral: the router's probabilities are those of all experts, of which the chosen ones are
  // scaled to 1, in float32. Else they are a softmax over the chosen ones, in the model's dtype.
  bool softmax_over_all = false;
  // gpt_oss: biases of router and experts, and as activation (up + 1) gate sigmoid(alpha gate) with
  // gate at most and up within `limit`.
  bool clamped = false;
  double limit = 0.0;
  double alpha = 0.0;
  // Factor on the auxiliary loss that balances the experts (Fedus et al. 2022); 0: none is added.
  double auxiliary_loss = 0.0;
};

// A Mamba-2 layer (Dao & Gu 2024) in place of attention.
struct MambaConfig {
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t groups = 0;  // of heads that share the state's input and output matrices
  int64_t state = 0;   // numbers of a channel's state
  int64_t kernel = 0;  // positions that the convolution sees
  bool convolution_bias = true;
  bool projection_bias = false;
  double least_step = 0.0;  // bounds of the step sizes; infinity: none
  double most_step = 0.0;

  int64_t inner() const { return heads * head_dim; }
  int64_t convolved() const { return inner() + 2 * groups * state; }
  int64_t projected() const { return inner() + convolved() + heads; }
};

// Factors on the activations, in the spirit of muP (Yang et al. 2022). 1 where a family has none.
struct Multipliers {
  double embedding = 1.0;
  double residual = 1.0;  // on what a branch adds to the residual stream
  double logits = 1.0;
};

struct ModelConfig {
  ModelFamily family = ModelFamily::kLlama;
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t max_position_embeddings = 0;
  AttentionConfig attention;
  bool mlp_bias = false;
  Activation activation = Activation::kSilu;
  double embedding_dropout = 0.0;     // shares that training drops: behind the embedding,
  double residual_dropout = 0.0;      // and of what a branch adds to the residual stream
  bool residual_behind_norm = false;  // Bloom: branches add to the norm's result
  bool layer_norm = false;            // norms subtract the mean and have biases; else RMSNorm
  double norm_eps = 1e-6;
  bool norm_rounds_last = false;  // RMSNorm is rounded after its weight, not before (gpt_oss)
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  Multipliers multipliers;
  std::optional<ExpertsConfig> experts;
  int64_t shared_intermediate_size = 0;  // of an MLP beside the experts; 0: none
  std::optional<MambaConfig> mamba;
  std::vector<bool> mamba_layers;  // one for each layer, or empty: none has Mamba-2
  bool rotary = true;              // queries and keys are rotated by their positions

  bool is_mamba(int64_t layer) const {
    return !mamba_layers.empty() && mamba_layers[static_cast<size_t>(layer)];
  }
  RopeConfig rope;

  // Matrices of experts are stored in MXFP4 (Open Compute Project 2023) and decoded when they are
  // loaded.
  bool mxfp4_experts = false;

  std::optional<VisionConfig> vision;  // of a model that reads images; all else is its text model

  std::optional<GptqConfig> gptq;  // how the linears of the layers are quantized, if they are

  // The embedding's padding row: starts as zero and gets no gradient through the embedding.
  std::optional<int64_t> pad_token_id;
  std::string dtype;  // "bfloat16": what the weights are stored in; empty: config.json does not say
};

// InputError naming `origin`, all findings at once, each with key, what was found and what is
// expected: an unknown model type or architecture, missing or impossible sizes, an activation or
// RoPE type that is not built, a quantization other than GPTQ. `pretraining_tp` is ignored as in
// transformers >= 4.48: it only split sums.
ModelConfig parse_model_config(const Json& hf_config, const std::string& origin = "config.json");

}  // namespace sftbench
