// What the forward pass keeps for the backward pass. Activation checkpointing (Chen et al. 2016)
// keeps each layer's input and runs the layer again when its gradient is due; the last layer, whose
// gradient is due first, is kept, and what surrounds the layers (embedding, loss) is never
// recomputed.
//
//                   while the forward pass runs           while the backward pass runs, besides
//   keep            what every operator's backward reads  nothing
//   reentrant       one [B, S, H] per layer, and the      what one layer's operators read: the
//   segments        last layer's operators' inputs        layer whose turn it is
//
// A layer's input goes when its gradient is done. What a recomputed layer multiplies last is left
// out (ops/recomputation.h): its output is known. All three give the same gradients, bit for bit.
// Source: torch.utils.checkpoint under Hugging Face's gradient_checkpointing.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>

#include "sftbench/model/causal_lm.h"

namespace sftbench {

// Runs the layers of one forward pass, then the backward pass that belongs to it.
class ActivationPolicy : public LayerRunner {
 public:
  // Adds d loss / d parameter to each trained parameter's gradient. `loss` comes from the forward
  // pass that ran through this runner last.
  virtual void backward(const torch::Tensor& loss) = 0;
};

// Autograd keeps what it wants.
std::unique_ptr<ActivationPolicy> keep_activations();

// Each layer is a node of the graph whose backward runs the layer and the graph of that run, one
// autograd engine inside another (use_reentrant=True).
std::unique_ptr<ActivationPolicy> checkpoint_reentrant(int64_t layer_count);

// The graph is cut between layers; their backward passes follow one another, none inside another
// (use_reentrant=False).
std::unique_ptr<ActivationPolicy> checkpoint_segments(int64_t layer_count);

// The same, and the inputs wait in the host's memory (host_inputs.h): those of all layers but the
// first, which the embedding's result is, and the last, which is not recomputed.
std::unique_ptr<ActivationPolicy> checkpoint_on_host(int64_t layer_count, torch::Device device);

}  // namespace sftbench
