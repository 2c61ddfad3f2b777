// The auxiliary loss that keeps a mixture's experts equally busy (Fedus et al. 2022), as Hugging
// Face computes it: over all layers at once,
//   loss = experts * sum over e of f_e P_e,
// where f_e is the share of (position, choice) pairs that went to expert e and P_e the mean of its
// router probability. Padding counts in neither.
//
// f and P are sums over layers, known when the last layer has run, while layers may be recomputed
// one by one in the backward pass. So each layer notes its sums here, and the loss sends its
// gradient to the routers by way of this object, not through the graph of the layers.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "sftbench/families/model_config.h"
#include "sftbench/model/context_group.h"

namespace sftbench {

class RouterBalance {
 public:
  // coefficient: factor on the loss.
  RouterBalance(int64_t layers, int64_t experts, double coefficient);

  // A forward pass over rows of which `mask` [B, S] says which positions are real (1) and which are
  // padding (0); undefined: all are real. `part`: of rows that several ranks divide, whose sums are
  // those of all of them; null: rows are whole. It outlives the pass.
  void begin(const torch::Tensor& mask, const ContextPart* part);

  // Notes what the router of a layer did: its logits [T, E] and its choices [T, k]. Returns the
  // logits, through which the loss's gradient reaches the router.
  torch::Tensor watch(int64_t layer, const torch::Tensor& logits, const torch::Tensor& choices);

  // coefficient * the loss, a float32 scalar. `anchor` is any tensor of the pass that requires a
  // gradient: it places the loss in the graph, and gets no gradient from it. Collective where ranks
  // divide rows: each has its share of the loss.
  torch::Tensor loss(const torch::Tensor& anchor);

 private:
  friend class WatchFunction;
  friend class BalanceFunction;

  void note(int64_t layer, const torch::Tensor& probabilities, const torch::Tensor& choices);
  torch::Tensor rows_mask(const torch::Tensor& logits) const;
  // d (what backward() was called on) / d probability of expert e in any real row, [E].
  torch::Tensor probability_gradient() const;

  struct Layer {
    torch::Tensor chosen;         // [E] (position, choice) pairs
    torch::Tensor probabilities;  // [E] sums
    double rows = 0;
  };
  // Of all layers, and of all ranks of a group.
  struct Sums {
    torch::Tensor chosen, probabilities;
    double rows = 0;
  };
  Sums sums() const;

  std::vector<Layer> layers_;
  Sums pass_;  // of the pass whose loss was asked for last
  const ContextPart* part_ = nullptr;
  int64_t experts_;
  double coefficient_;
  torch::Tensor mask_;
  torch::Tensor upstream_;  // gradient of the loss
};

}  // namespace sftbench
