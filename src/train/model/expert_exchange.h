// How the rows of a mixture of experts come to experts that other ranks have, and the results back.
// Each rank of a group has a part of the experts: as many neighbors as every other.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "sftbench/model/expert_group.h"
#include "sftbench/ops/route.h"

namespace sftbench {

// Of one pass through the experts of a layer.
class ExpertExchange {
 public:
  // `offsets` [E + 1] as of ops::Routes. Collective: ranks tell each other how many rows they send.
  ExpertExchange(ExpertGroup& group, const std::vector<int64_t>& offsets);

  // Where the rows of this rank's experts lie once they are here, sorted: [E / N + 1].
  const std::vector<int64_t>& own_offsets() const { return own_offsets_; }

  // Rows [T k, H], sorted by expert, go to the ranks of their experts -> the rows of this rank's
  // experts, sorted by expert, of each expert in the order of the ranks. `meanwhile` runs while
  // rows are under way. Differentiable: gradients go the way back.
  torch::Tensor scatter(const torch::Tensor& rows, const std::function<void()>& meanwhile) const;
  // The way back.
  torch::Tensor gather(const torch::Tensor& rows) const;

 private:
  ExpertGroup* group_;
  std::vector<int64_t> sent_, received_;  // rows to and from each rank
  std::vector<int64_t> own_offsets_;
  // Received rows lie by rank, then by expert. by_expert_[i]: which of them is the i-th by expert;
  // by_rank_ the inverse.
  torch::Tensor by_expert_, by_rank_;
};

}  // namespace sftbench
