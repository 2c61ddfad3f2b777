// Gradients in flat arrays, so that one collective is about many of them. Each gradient is a view
// into its bucket from the beginning, so nothing is copied. Source: DistributedDataParallel with
// gradient_as_bucket_view (bucket_cap_mb 25, first bucket 1 MiB).
//
// Which bucket a gradient is in follows from the model alone, never from which rank had a gradient:
// ranks on which a parameter was not used contribute zeros.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "parallel/flat_layout.h"
#include "sftbench/parallel/parallel_parameters.h"

namespace sftbench {

// GradientBucket::after of gradients that are complete once the backward pass has ended.
inline constexpr int64_t kAtEnd = -1;
// GradientBucket::used_from of parameters that are read in front of the layers.
inline constexpr int64_t kAtBegin = -1;

struct GradientBucket {
  FlatLayout layout;
  torch::Tensor gradients = {};  // flat
  std::vector<torch::Tensor*> tensors = {};
  std::vector<torch::Tensor> places = {};  // views of `gradients`, one for each tensor
  // All of them are complete once the backward pass has come to layer `after`: the gradient of its
  // output is there.
  int64_t after = kAtEnd;
  // The layer that reads the first of them in the forward pass; the number of layers: none does,
  // but what stands behind them.
  int64_t used_from = kAtBegin;

  void clear();  // zeros in every gradient, which are the tensors' from here on
  void drop();   // the tensors have no gradient
  // Of an operator that made a gradient of its own instead of adding to the one that was there.
  void take_strays();
};

// Of trained parameters, in the order in which the backward pass completes them; of one dtype each,
// padded to `shards` equal parts.
std::vector<GradientBucket> make_gradient_buckets(const std::vector<ParameterUnit>& units,
                                                  Buckets kind, int64_t shards);

}  // namespace sftbench
