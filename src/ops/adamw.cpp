#include "sftbench/ops/adamw.h"

#include <torch/torch.h>

#include <algorithm>
#include <cmath>

#include "ops/adamw_impl.h"
#include "ops/checks.h"
#include "ops/cpu_dispatch.h"

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

bool all_contiguous_on_cpu(const std::vector<Tensor>& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& tensor) {
    return has_cpu_kernels(tensor) && tensor.is_contiguous();
  });
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
  const bool kernels = all_contiguous_on_cpu(parameters) && all_contiguous_on_cpu(gradients) &&
                       all_contiguous_on_cpu(first_moments) &&
                       all_contiguous_on_cpu(second_moments);
  (kernels ? adamw_step_cpu : adamw_step_aten)(parameters, gradients, first_moments, second_moments,
                                               step);
}

double global_norm(const std::vector<Tensor>& tensors) {
  const torch::NoGradGuard no_grad;
  for (const Tensor& tensor : tensors) require_float(tensor, "global_norm", "tensors");
  return std::sqrt(
      (all_contiguous_on_cpu(tensors) ? sum_of_squares_cpu : sum_of_squares_aten)(tensors));
}

}  // namespace sftbench::ops
