#include "sftbench/ops/linear.h"

#include "ops/checks.h"
#include "ops/gemm.h"
#include "ops/linear_rows.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/grad_accumulation.h"
#include "sftbench/ops/recomputation.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Autograd functions of libtorch 1.13 take no undefined tensors.
OptionalTensor optional(const Tensor& tensor) {
  return tensor.defined() ? OptionalTensor(tensor) : OptionalTensor();
}

class Linear : public torch::autograd::Function<Linear> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const OptionalTensor& optional_bias) {
    const Tensor bias = optional_bias ? *optional_bias : Tensor();
    // The input is needed for the weight's gradient only: frozen weights keep nothing.
    ctx->save_for_backward({weight.requires_grad() ? x : Tensor(), weight, bias});
    ctx->saved_data["x_requires_grad"] = x.requires_grad();
    return linear_rows(x, weight, bias);
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor& x = saved[0];
    const Tensor& weight = saved[1];
    const Tensor& bias = saved[2];
    const Tensor& y_gradient = output_gradients[0];
    const Tensor y_rows = rows(y_gradient);
    variable_list gradients(3);
    if (ctx->saved_data["x_requires_grad"].toBool()) {
      gradients[0] = matmul_nn(y_rows, weight).view(with_last(y_gradient, weight.size(1)));
    }
    if (weight.requires_grad()) {
      gradients[1] = accumulate_gradient(weight, [&](Tensor& target, double beta) {
        matmul_tn_into(target, y_rows, rows(x), beta);
      });
    }
    if (bias.defined() && bias.requires_grad()) {
      gradients[2] = accumulate_gradient(bias, [&](Tensor& target, double beta) {
        const Tensor sum = y_rows.sum(0);
        beta == 0.0 ? target.copy_(sum) : target.add_(sum);
      });
    }
    return gradients;
  }
};

// Hidden from autograd, which would look for gradients of them.
struct FrozenBiases {
  std::vector<Tensor> all;  // undefined where there is none
};

// Nothing but the weights is kept, and only x has a gradient.
class FrozenLinears : public torch::autograd::Function<FrozenLinears> {
 public:
  static variable_list forward(AutogradContext* ctx, const Tensor& x, at::TensorList weights,
                               const FrozenBiases& biases) {
    ctx->save_for_backward(weights.vec());
    ctx->saved_data["x_sizes"] = x.sizes().vec();
    variable_list outputs;
    for (size_t i = 0; i < weights.size(); ++i)
      outputs.push_back(linear_rows(x, weights[i], biases.all[i]));
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& output_gradients) {
    const variable_list weights = ctx->get_saved_variables();
    const Tensor sum = input_gradient(output_gradients, weights);
    variable_list gradients(2 + weights.size());  // x, the weights, the biases
    if (sum.defined()) gradients[0] = sum.view(ctx->saved_data["x_sizes"].toIntVector());
    return gradients;
  }
};

void check_shapes(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require_float(x, "linear", "x");
  require(x.dim() >= 1, "linear", "x must be [..., in]", describe(x));
  require_like(weight, "linear", "weight", {-1, x.size(-1)}, x);
  if (bias.defined()) require_like(bias, "linear", "bias", {weight.size(0)}, x);
}

}  // namespace

// The result is no view, so that adapters may add to it in place.
Tensor linear_rows(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const std::vector<int64_t> sizes = with_last(x, weight.size(0));
  if (!values_needed()) return torch::zeros(sizes, x.options());
  Tensor y = torch::empty(sizes, x.options());
  matmul_nt_into(y.view({-1, y.size(-1)}), rows(x), weight, bias);
  return y;
}

Tensor input_gradient(const std::vector<Tensor>& output_gradients,
                      const std::vector<Tensor>& weights, Tensor sum) {
  for (size_t i = 0; i < weights.size(); ++i) {
    if (!output_gradients[i].defined()) continue;  // nobody used this output
    const Tensor y_rows = rows(output_gradients[i]);
    if (sum.defined()) {
      add_matmul_nn(sum, y_rows, weights[i]);
    } else {
      sum = matmul_nn(y_rows, weights[i]);
    }
  }
  return sum;
}

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  check_shapes(x, weight, bias);
  const bool differentiable =
      torch::GradMode::is_enabled() &&
      (x.requires_grad() || weight.requires_grad() || (bias.defined() && bias.requires_grad()));
  return differentiable ? Linear::apply(x, weight, optional(bias)) : linear_rows(x, weight, bias);
}

std::vector<Tensor> frozen_linears(const Tensor& x, const std::vector<LinearOperands>& linears) {
  std::vector<Tensor> weights, biases, outputs;
  for (const auto& [weight, bias] : linears) {
    check_shapes(x, weight, bias);
    require(!weight.requires_grad() && !(bias.defined() && bias.requires_grad()), "frozen_linears",
            "no operand may require a gradient", describe(weight));
    weights.push_back(weight);
    biases.push_back(bias);
  }
  if (torch::GradMode::is_enabled() && x.requires_grad())
    return FrozenLinears::apply(x, at::TensorList(weights), FrozenBiases{biases});
  for (size_t i = 0; i < weights.size(); ++i)
    outputs.push_back(linear_rows(x, weights[i], biases[i]));
  return outputs;
}

}  // namespace sftbench::ops
