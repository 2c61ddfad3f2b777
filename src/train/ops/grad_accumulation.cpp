#include "sftbench/ops/grad_accumulation.h"

#include "sftbench/base/torch.h"

namespace sftbench::ops {

bool accumulates_in_place(const torch::Tensor& parameter) {
  return parameter.is_leaf() && parameter.requires_grad();
}

torch::Tensor accumulate_gradient(const torch::Tensor& parameter, const GradientInto& compute) {
  const torch::NoGradGuard no_grad;
  const bool in_place = accumulates_in_place(parameter);
  if (in_place && parameter.grad().defined()) {
    compute(parameter.mutable_grad(), 1.0);
    return {};
  }
  torch::Tensor gradient = torch::empty_like(parameter, torch::MemoryFormat::Contiguous);
  compute(gradient, 0.0);
  if (!in_place) return gradient;
  parameter.mutable_grad() = gradient;
  return {};
}

}  // namespace sftbench::ops
