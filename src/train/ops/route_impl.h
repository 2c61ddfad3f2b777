// What an implementation of routing gives. Contiguous tensors; T tokens with k choices each.
#pragma once

#include <utility>

#include "sftbench/ops/route.h"
#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

// Throws unless the experts chosen, the lowest to the highest, are some of expert_count.
void require_experts(int64_t lowest, int64_t highest, int64_t expert_count);

struct RouteImpl {
  // Throws as above.
  Routes (*sort)(const torch::Tensor& experts, int64_t expert_count);
  torch::Tensor (*gather)(const torch::Tensor& x, const torch::Tensor& tokens);
  // weights [T, k] in the wide dtype, or undefined: all 1.
  torch::Tensor (*combine)(const torch::Tensor& y, const torch::Tensor& weights,
                           const torch::Tensor& positions);
  // {gradient of y, gradient of the weights in the wide dtype}
  std::pair<torch::Tensor, torch::Tensor> (*combine_backward)(const torch::Tensor& output_gradient,
                                                              const torch::Tensor& y,
                                                              const torch::Tensor& weights,
                                                              const torch::Tensor& positions);
};

extern const RouteImpl kRouteCpu;
extern const RouteImpl kRouteCuda;  // in the CUDA flavor; not for float64
extern const RouteImpl kRouteAten;  // any device and dtype, from stock operators

}  // namespace sftbench::ops
