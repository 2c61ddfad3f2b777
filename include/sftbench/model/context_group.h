// The ranks that divide the positions of a row among them (context parallelism), and a rank's part
// of one. The model asks for the exchange of keys, states and sums, and knows nothing of ranks
// otherwise.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sftbench/variants/context_layout.h"

namespace sftbench {

class ContextGroup {
 public:
  virtual ~ContextGroup() = default;

  virtual int64_t size() const = 0;
  virtual int64_t rank() const = 0;

  // Collective, and in the same order on every rank. Tensors are contiguous and the exchange's
  // until the returned function returns.
  using Wait = std::function<void()>;
  // sent[r] elements of `from` go to rank r, received[r] of `to` come from it; parts lie one behind
  // the other by rank.
  virtual Wait exchange(const torch::Tensor& from, const std::vector<int64_t>& sent,
                        const torch::Tensor& to, const std::vector<int64_t>& received) = 0;
  // all [N, n] := every rank's own [n].
  virtual Wait all_gather(const torch::Tensor& all, const torch::Tensor& own) = 0;
  // own [n] := this rank's part of the sum over ranks of all [N, n], which is clobbered.
  virtual Wait reduce_scatter(const torch::Tensor& own, const torch::Tensor& all) = 0;
  // tensor := its sum over ranks.
  virtual void all_reduce(const torch::Tensor& tensor) = 0;
};

// This rank's part of the rows of a micro-batch: what its tensors [B, S, ...] hold are the
// positions `positions` of rows of layout.row_length().
struct ContextPart {
  ContextGroup* group;  // outlives this
  ContextLayout layout;
  torch::Tensor positions;  // [S] int64, on the device
};

}  // namespace sftbench
