// What a model consists of, by arithmetic from its configuration: every tensor and its size, the
// linears of each layer, and what attention works on. Parameter counts, predictions, simulated runs
// and FLOPs come from here. tests/model holds it against the parameters of the model itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/families/model_config.h"

namespace sftbench {

struct TensorShape {
  std::string name;  // relative to its layer: "self_attn.q_proj.weight"
  std::vector<int64_t> sizes;

  int64_t elements() const;
};

// Inputs of a layer's linears that wait for nothing but the gradients of their weights
// (LinearShape::input). What attention gives its output projection, attention itself keeps.
inline constexpr int kMixerInput = 0;  // the first norm's result
inline constexpr int kMlpInput = 1;    // the second norm's
inline constexpr int kMlpInside = 2;   // what the activation function leaves
inline constexpr int kScanned = 3;     // what a Mamba-2 layer projects back

// A linear projection y = x W^T + b, which adapters can be added to. Its tensors are listed, too.
struct LinearShape {
  std::string name;  // "self_attn.q_proj"
  int64_t in = 0;
  int64_t out = 0;
  // Which input of the layer's it has, where that waits for the gradient of this weight alone:
  // linears of one number share it. kKeptAnyway: something else needs it in the backward pass.
  int input = kKeptAnyway;

  static constexpr int kKeptAnyway = -1;
};

// Products of a router and its experts, which no adapter is added to.
struct ExpertsShape {
  int64_t routed = 0;  // weights that every position is multiplied with: the router's
  int64_t active = 0;  // those of the experts that a position goes through
  int64_t all = 0;     // those of all experts
  // Values of a position in all experts that it goes through: of what they read, as many as of
  // their results, and of the products of gate and up. What they read and these products wait for
  // the gradients of weights alone.
  int64_t row_values = 0, inner_values = 0;
};

// The MLP that every position goes through, and what of a position stands between its input and its
// result: gate, up and their product, say. All 0 in a mixture without a shared expert.
struct MlpShape {
  int64_t inner_values = 0;  // what its last product reads
  int64_t kept_values = 0;   // what waits for the backward pass, a part of LayerShape::kept_values
  int64_t gradients = 0;     // what the backward pass holds at once beside these
  int64_t first_products = 0;  // weights of all its products but the last
};

struct LayerShape {
  std::vector<TensorShape> tensors;  // in forward order
  std::vector<LinearShape> linears;  // in forward order
  ExpertsShape experts;
  // Heads times head size of the queries, or 0 for a layer without attention; and the keys that a
  // query sees (0: all before it).
  int64_t query_width = 0;
  int64_t window = 0;
  // Values of the state of a Mamba-2 layer: inner width times state size. 0 for another layer.
  int64_t scanned_values = 0;
  // Weights of the layer's last product, which a recomputation leaves out: nothing needs its
  // result. 0: everything is computed again.
  int64_t last_product = 0;
  // Values per position that wait for the backward pass of a layer that is not recomputed: inputs
  // of norms and products, and what attention and activation functions need again. All weights are
  // trained.
  int64_t kept_values = 0;
  // Values per position that the backward pass of the layer holds beside these, at most: gradients
  // of what its experts or its scan computed, and of the residual stream. mlp has those of its MLP.
  int64_t backward_values = 0;
  MlpShape mlp;

  int64_t parameters() const;
};

struct ModelShape {
  std::vector<TensorShape> before;          // the embedding first
  std::vector<LinearShape> linears_before;  // of a vision tower, by their whole names
  std::vector<LayerShape> layers;
  std::vector<TensorShape> after;  // final norm, output projection unless it is tied

  int64_t parameters() const;  // tied weights counted once
  // Rows that are looked up and multiplied with nothing. A tied embedding is multiplied as the
  // output projection.
  int64_t lookup_parameters = 0;
  // Of a vision tower and its projector, which images go through and tokens do not.
  int64_t vision_parameters = 0;
  // Of experts that a position does not go through, and of a vision tower: no part of the FLOPs of
  // a token.
  int64_t idle_parameters() const;
};

// Linears between a vision tower and the text model, by their leaf names, with an activation
// function between two of them. REQUIRES: config.vision.
std::vector<LinearShape> projector_linears(const ModelConfig& config);

// Of the vision tower and the projector in one forward pass over a tile: products, and attention of
// all positions to all. 0 for a model that reads no images.
double tile_flops(const ModelConfig& config);

// The shape of a model of any family.
ModelShape shape_of(const ModelConfig& config);

// Parameters of the architecture that a config.json describes, tied weights counted once.
// InputError as parse_model_config() says.
int64_t parameter_count(const Json& hf_config);

// Whether `target` of LoRA's target_modules names the linear: its whole name, its end after a dot,
// or "all-linear".
bool is_lora_target(const std::string& linear, const std::string& target);

}  // namespace sftbench
