// What a Hugging Face config.json says about a decoder-only model, checked and with Hugging Face's
// defaults filled in (the configuration classes of transformers 5; both its `rope_parameters` and
// the older `rope_theta` + `rope_scaling`). Knows no libtorch: what is read is untrusted and
// fuzzed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/families/gptq.h"
#include "sftbench/families/nf4.h"
#include "sftbench/families/vision_config.h"

namespace sftbench {

struct Family;  // families/family.h

enum class RopeType {
  kDefault,  // Su et al. 2021
  kLinear,   // position interpolation, Chen et al. 2023
  kDynamic,  // NTK-aware, base grows with the sequence
  kLlama3,   // by wavelength, Llama 3.1
  kYarn,     // Peng et al. 2023
  kLong,     // LongRoPE, Ding et al. 2024: a factor for each pair
};

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000.0;
  int64_t dim = 0;                               // values of each head that are rotated: the first
  double factor = 1.0;                           // all but kDefault
  int64_t original_max_position_embeddings = 0;  // kLlama3, kYarn, kLong: length of pre-training
  double low_freq_factor = 1.0;                  // kLlama3
  double high_freq_factor = 4.0;                 // kLlama3
  double beta_fast = 32.0;                       // kYarn: rotations above which a frequency is kept
  double beta_slow = 1.0;                        // kYarn: rotations below which it is interpolated
  bool truncate = true;  // kYarn: round the bounds of the ramp to whole dimensions
  // kLong, for each pair: of sequences up to the length of pre-training, and of longer ones.
  std::vector<double> short_factors, long_factors;
  // kYarn, kLong: factor on cosines and sines. When absent, that of the paper, or in kYarn the
  // ratio of the two mscale values where both are given.
  std::optional<double> attention_factor;
  std::optional<double> mscale;
  std::optional<double> mscale_all_dim;
  // Queries at position p are multiplied by 1 + query_growth log(1 + floor(p /
  // original_max_position_embeddings)) (Llama 4; Ministral 3). 0: they are not.
  double query_growth = 0.0;
};

// How the input of attention becomes queries, keys and values.
enum class QkvForm {
  kApart,     // by a linear each
  kInBlocks,  // by one, whose result has all queries, then all keys, then all values
  kByHead,    // by one, whose result has a head's query, key and value side by side
};

// Norms of queries and keys before they are rotated.
enum class QkNorms {
  kNone,
  kOfHeads,  // over each head (Qwen 3)
  kOfAll,    // over all heads together (OLMo 2)
};

// Grouped-query attention (Ainslie et al. 2023) of every layer.
struct AttentionConfig {
  int64_t heads = 0;            // of queries
  int64_t key_value_heads = 0;  // a divisor of `heads`
  int64_t head_dim = 0;
  bool input_bias = false;   // of the query, key and value projections
  bool output_bias = false;  // of the output projection
  QkvForm qkv_form = QkvForm::kApart;
  // Names of the module, of its one linear where q_proj, k_proj and v_proj are one, and of the
  // last.
  const char *module = "self_attn", *qkv = "qkv_proj", *output = "o_proj";
  QkNorms norms = QkNorms::kNone;
  bool sinks = false;      // one more score for each head, whose value is zero (gpt_oss)
  double scale = 1.0;      // factor on the scores
  double score_cap = 0.0;  // scores become cap tanh(score / cap); 0: they stay (Gemma 2)
  double dropout = 0.0;    // share of the probabilities that training drops
  int64_t window = 0;      // keys that a query sees, its own included; 0: all before it
  // The layers with a window: those of layer_types where config.json has them, else all from
  // `first_window_layer` on.
  int64_t first_window_layer = 0;
  std::vector<bool> windowed;
  // The layers without positions; empty: none. And whether pairs are neighbors, not halves apart.
  std::vector<bool> unrotated;
  bool rotates_neighbors = false;

  int64_t query_width() const { return heads * head_dim; }
  int64_t key_value_width() const { return key_value_heads * head_dim; }
  int64_t window_of(int64_t layer) const {
    const bool has =
        windowed.empty() ? layer >= first_window_layer : windowed[static_cast<size_t>(layer)];
    return has ? window : 0;
  }
  bool rotates(int64_t layer) const {
    return unrotated.empty() || !unrotated[static_cast<size_t>(layer)];
  }
};

enum class Activation { kSilu, kGelu, kGeluTanh };  // kGelu by the error function

// What a position goes through by itself, down(inner), and the names of its linears.
enum class MlpForm {
  kGated,       // inner = activation(gate x) * (up x), gate_proj and up_proj
  kGatedInOne,  // gate and up are halves of one linear
  kPlain,       // inner = activation(up x)
};
struct MlpConfig {
  MlpForm form = MlpForm::kGated;
  const char *module = "mlp", *input = "gate_up_proj", *output = "down_proj";
  bool is_multiplied = false;  // its result has a factor that is learned
};
// Beside the experts of Granite's families.
inline constexpr MlpConfig kSharedMlp = {MlpForm::kGatedInOne, "shared_mlp", "input_linear",
                                         "output_linear"};

// How attention and MLP add to the stream x, and where norms stand.
enum class LayerForm {
  kNormsBefore,         // x + branch(norm(x)), one after the other (Llama)
  kNormsBehind,         // x + norm(branch(x)) (OLMo 2)
  kNormsAround,         // x + norm(branch(norm(x))) (Gemma 2)
  kParallel,            // x + attention(norm(x)) + mlp(norm(x)) of one norm (GPT-J; Cohere)
  kParallelOfTwoNorms,  // the same, of two norms (GPT-NeoX)
};

// Names of a layer's norms; null where there is none.
struct LayerNormNames {
  const char *before_attention, *behind_attention, *before_mlp, *behind_mlp;
};

// How a family stores its experts' matrices.
enum class ExpertStorage {
  kApart,    // Mixtral: gate.weight, experts.<e>.w1 (gate), w3 (up), w2 (down)
  kStacked,  // Granite: router.layer.weight, input_linear [E, 2I, H] (gate, up), output_linear
  // gpt_oss: router.weight and .bias, gate_up_proj [E, H, 2I] (alternating), down_proj, their
  // biases
  kTransposed,
};

// What kApart calls the router and an expert's matrices.
struct ExpertNames {
  const char *module, *gate, *up, *down;
};
inline constexpr ExpertNames kMixtralExperts = {"block_sparse_moe", "w1", "w3", "w2"};
inline constexpr ExpertNames kQwenExperts = {"mlp", "gate_proj", "up_proj", "down_proj"};

// A mixture of experts instead of the MLP (Shazeer et al. 2017): each position goes through the
// experts that a router chooses for it.
struct ExpertsConfig {
  ExpertStorage storage = ExpertStorage::kStacked;
  ExpertNames names = kMixtralExperts;  // of kApart
  int64_t count = 0;
  int64_t per_token = 0;  // experts that a position goes through
  int64_t width = 0;      // of an expert
  // The layers that have an MLP instead; empty: none.
  std::vector<bool> dense_layers;
  // The router's probabilities are those of all experts, of which the chosen ones are scaled to 1
  // or not. Else they are a softmax over the chosen ones, in the model's dtype.
  bool softmax_over_all = false;
  bool scales_chosen = true;
  bool float32_weights = true;  // of softmax_over_all: as Mixtral's, and not rounded as Qwen's
  bool gates_shared = false;    // the MLP beside the experts has a factor of its own, a sigmoid
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
  double tokens = 1.0;  // on rows of the embedding, in their dtype, and not on virtual tokens
  double embedding = 1.0;
  double residual = 1.0;  // on what a branch adds to the residual stream
  double logits = 1.0;
  double logit_cap = 0.0;  // logits become cap tanh(logit / cap); 0: they stay
};

struct ModelConfig {
  const Family* family = nullptr;  // its row
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t max_position_embeddings = 0;
  AttentionConfig attention;
  MlpConfig mlp;
  bool mlp_bias = false;
  bool transposed_linears = false;  // weights of the layers' linears are [in, out] (GPT-2's Conv1D)
  Activation activation = Activation::kSilu;
  double embedding_dropout = 0.0;     // shares that training drops: behind the embedding,
  double residual_dropout = 0.0;      // and of what a branch adds to the residual stream
  bool residual_behind_norm = false;  // Bloom: branches add to the norm's result
  LayerForm layer_form = LayerForm::kNormsBefore;
  std::optional<LayerNormNames> norm_names;  // where they are not those of the form
  bool layer_norm = false;                   // norms subtract the mean; else RMSNorm
  bool norm_bias = true;                     // where they subtract the mean
  double norm_eps = 1e-6;
  bool norm_rounds_last = false;  // RMSNorm is rounded after its weight, not before (gpt_oss)
  bool norm_from_one = false;     // the factor is 1 + weight (Gemma)
  double initializer_range = 0.02;
  bool tie_word_embeddings = false;
  Multipliers multipliers;
  std::optional<ExpertsConfig> experts;
  int64_t shared_intermediate_size = 0;  // of an MLP beside the experts; 0: none
  MlpConfig shared_mlp = kSharedMlp;
  std::optional<MambaConfig> mamba;
  std::vector<bool> mamba_layers;  // one for each layer, or empty: none has Mamba-2
  bool rotary = true;              // queries and keys are rotated by their positions

  bool has_experts(int64_t layer) const {
    return experts &&
           (experts->dense_layers.empty() || !experts->dense_layers[static_cast<size_t>(layer)]);
  }
  bool is_mamba(int64_t layer) const {
    return !mamba_layers.empty() && mamba_layers[static_cast<size_t>(layer)];
  }
  RopeConfig rope;
  std::optional<RopeConfig> local_rope;  // of layers with a window, where they have their own

  // Matrices of experts are stored in MXFP4 (Open Compute Project 2023) and decoded when they are
  // loaded.
  bool mxfp4_experts = false;

  std::optional<VisionConfig> vision;  // of a model that reads images; all else is its text model

  // How the linears of the layers are quantized: at most one of these.
  std::optional<GptqConfig> gptq;
  std::optional<Nf4Config> nf4;

  // The embedding's padding row: starts as zero and gets no gradient through the embedding.
  std::optional<int64_t> pad_token_id;
  std::string dtype;  // "bfloat16": what the weights are stored in; empty: config.json does not say
};

LayerNormNames norms_of(const ModelConfig& config);

// InputError naming `origin`, all findings at once, each with key, what was found and what is
// expected: an unknown model type or architecture, missing or impossible sizes, an activation or
// RoPE type that is not built, a quantization other than GPTQ. `pretraining_tp` is ignored as in
// transformers >= 4.48: it only split sums.
ModelConfig parse_model_config(const Json& hf_config, const std::string& origin = "config.json");

}  // namespace sftbench
