#include "sftbench/ops/adamw.h"

#include <torch/torch.h>

#include <cmath>

#include "ops/checks.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;

void check_lists(const std::vector<Tensor>& parameters, const std::vector<Tensor>& others,
                 const char* name) {
  require(parameters.size() == others.size(), "adamw_step",
          std::string(name) + " must be " + std::to_string(parameters.size()) + " tensors",
          std::to_string(others.size()));
  for (size_t i = 0; i < parameters.size(); ++i) {
    require_like(others[i], "adamw_step", name, parameters[i].sizes().vec(), parameters[i]);
  }
}

void step_one(const Tensor& parameter, const Tensor& gradient, const Tensor& first,
              const Tensor& second, const AdamWStep& step) {
  const auto wide = parameter.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
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

void adamw_step(const std::vector<Tensor>& parameters, const std::vector<Tensor>& gradients,
                const std::vector<Tensor>& first_moments, const std::vector<Tensor>& second_moments,
                const AdamWStep& step) {
  const torch::NoGradGuard no_grad;
  for (const Tensor& parameter : parameters) require_float(parameter, "adamw_step", "parameters");
  check_lists(parameters, gradients, "gradients");
  check_lists(parameters, first_moments, "first_moments");
  check_lists(parameters, second_moments, "second_moments");
  for (size_t i = 0; i < parameters.size(); ++i) {
    step_one(parameters[i], gradients[i], first_moments[i], second_moments[i], step);
  }
}

double global_norm(const std::vector<Tensor>& tensors) {
  double sum = 0.0;
  for (const Tensor& tensor : tensors) {
    sum += std::pow(
        tensor.norm(2, tensor.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32)
            .item<double>(),
        2);
  }
  return std::sqrt(sum);
}

}  // namespace sftbench::ops
