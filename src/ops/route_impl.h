// What an implementation of routing gives. Contiguous tensors; T tokens with k choices each.
#pragma once

#include <torch/types.h>

#include <utility>

#include "sftbench/ops/route.h"

namespace sftbench::ops {

struct RouteImpl {
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
extern const RouteImpl kRouteAten;  // any device and dtype, from stock operators

}  // namespace sftbench::ops
