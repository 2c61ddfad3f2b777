#include <torch/torch.h>

#include <cmath>

#include "ops/adamw_impl.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

torch::Dtype wide_dtype(const Tensor& x) {
  return x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

void step_one(const Tensor& parameter, const Tensor& gradient, const Tensor& first,
              const Tensor& second, const AdamWStep& step) {
  const auto wide = wide_dtype(parameter);
  const double correction1 = 1.0 - std::pow(step.beta1, step.step);
  const double correction2 = 1.0 - std::pow(step.beta2, step.step);
  const Tensor g = gradient.to(wide) * step.gradient_scale;
  const Tensor m = first.to(wide) * step.beta1 + g * (1.0 - step.beta1);
  const Tensor v = second.to(wide) * step.beta2 + g * g * (1.0 - step.beta2);
  const Tensor denominator = v.sqrt() / std::sqrt(correction2) + step.epsilon;
  const Tensor p = parameter.to(wide) * (1.0 - step.learning_rate * step.weight_decay);
  parameter.copy_(p - m / denominator * (step.learning_rate / correction1));
  first.copy_(m);
  second.copy_(v);
}

}  // namespace

void adamw_step_aten(const TensorList& parameters, const TensorList& gradients,
                     const TensorList& first_moments, const TensorList& second_moments,
                     const AdamWStep& step) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    step_one(parameters[i], gradients[i], first_moments[i], second_moments[i], step);
  }
}

double sum_of_squares_aten(const TensorList& tensors) {
  if (tensors.empty()) return 0.0;
  // One transfer from the device at the end, not one per tensor.
  Tensor total = torch::zeros({}, tensors.front().options().dtype(torch::kFloat64));
  for (const Tensor& tensor : tensors) {
    total += tensor.to(wide_dtype(tensor)).square().sum().to(total.device(), torch::kFloat64);
  }
  return total.item<double>();
}

}  // namespace sftbench::ops
