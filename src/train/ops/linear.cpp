#include "sftbench/ops/linear.h"

#include "ops/checks.h"
#include "ops/gemm.h"
#include "ops/linear_rows.h"
#include "ops/shapes.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/grad_accumulation.h"
#include "sftbench/ops/recomputation.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Which of the linears of a node have a bias, hidden from autograd.
struct Biases {
  std::vector<bool> there;
};

// The operands of a node among its tensors: x, n weights, and the biases that there are.
struct Operands {
  std::vector<Tensor> weights, biases;  // biases[i] undefined where linear i has none

  Operands(const std::vector<Tensor>& tensors, const std::vector<bool>& has_bias) {
    const auto first = tensors.begin() + 1, last = first + static_cast<ptrdiff_t>(has_bias.size());
    weights.assign(first, last);
    auto bias = last;
    for (const bool has : has_bias) biases.push_back(has ? *bias++ : Tensor());
  }
};

Tensor add_up_bias(const Tensor& bias, const Tensor& y_rows) {
  return accumulate_gradient(bias, [&](Tensor& target, double beta) {
    const Tensor sum = y_rows.sum(0);
    beta == 0.0 ? target.copy_(sum) : target.add_(sum);
  });
}

class Linears : public torch::autograd::Function<Linears> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, const Biases& biases) {
    const Operands operands(tensors.vec(), biases.there);
    const Tensor& x = tensors[0];
    variable_list saved = tensors.vec(), outputs;
    // The input is needed for gradients of weights only: frozen ones keep nothing.
    bool keeps_input = false;
    for (const Tensor& weight : operands.weights) keeps_input |= weight.requires_grad();
    if (!keeps_input) saved[0] = Tensor();
    ctx->save_for_backward(std::move(saved));
    ctx->set_materialize_grads(false);
    ctx->saved_data["x_sizes"] = x.requires_grad() ? x.sizes().vec() : std::vector<int64_t>();
    std::vector<int64_t> has_bias(biases.there.begin(), biases.there.end());
    ctx->saved_data["has_bias"] = std::move(has_bias);
    for (size_t i = 0; i < operands.weights.size(); ++i)
      outputs.push_back(linear_rows(x, operands.weights[i], operands.biases[i]));
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const std::vector<int64_t> has_bias = ctx->saved_data["has_bias"].toIntVector();
    const Operands operands(saved, {has_bias.begin(), has_bias.end()});
    const size_t n = operands.weights.size();
    variable_list gradients(saved.size() + 1);  // and none of which biases there are
    if (const auto sizes = ctx->saved_data["x_sizes"].toIntVector(); !sizes.empty()) {
      const Tensor sum = input_gradient(output_gradients, operands.weights);
      if (sum.defined()) gradients[0] = sum.view(sizes);
    }
    size_t place_of_bias = 1 + n;
    for (size_t i = 0; i < n; ++i) {
      const Tensor &weight = operands.weights[i], &bias = operands.biases[i];
      const size_t bias_gradient = bias.defined() ? place_of_bias++ : 0;
      if (!output_gradients[i].defined()) continue;  // nobody used this output
      const Tensor y_rows = rows(output_gradients[i]);
      if (weight.requires_grad()) {
        gradients[1 + i] = accumulate_gradient(weight, [&](Tensor& target, double beta) {
          matmul_tn_into(target, y_rows, rows(saved[0]), beta);
        });
      }
      if (bias.defined() && bias.requires_grad())
        gradients[bias_gradient] = add_up_bias(bias, y_rows);
    }
    return gradients;
  }
};

Tensor transposed_rows(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const std::vector<int64_t> sizes = with_last(x, weight.size(1));
  if (!values_needed()) return torch::zeros(sizes, x.options());
  Tensor y = torch::empty(sizes, x.options());
  matmul_nn_into(y.view({-1, y.size(-1)}), rows(x), weight, bias);
  return y;
}

class TransposedLinear : public torch::autograd::Function<TransposedLinear> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& weight,
                        const Tensor& bias) {
    ctx->save_for_backward({weight.requires_grad() ? x : Tensor(), weight, bias});
    ctx->saved_data["x_sizes"] = x.requires_grad() ? x.sizes().vec() : std::vector<int64_t>();
    return transposed_rows(x, weight, bias);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &weight = saved[1], &bias = saved[2];
    const Tensor y_rows = rows(output_gradients[0]);
    variable_list gradients(3);
    if (const auto sizes = ctx->saved_data["x_sizes"].toIntVector(); !sizes.empty()) {
      gradients[0] = torch::empty(sizes, y_rows.options());
      matmul_nt_into(gradients[0].view({-1, weight.size(0)}), y_rows, weight);
    }
    if (weight.requires_grad()) {
      gradients[1] = accumulate_gradient(weight, [&](Tensor& target, double beta) {
        matmul_tn_into(target, rows(x), y_rows, beta);
      });
    }
    if (bias.requires_grad()) gradients[2] = add_up_bias(bias, y_rows);
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
  return linears(x, {{weight, bias}})[0];
}

Tensor transposed_linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  require_float(x, "transposed_linear", "x");
  require(x.dim() >= 1, "transposed_linear", "x must be [..., in]", describe(x));
  require_like(weight, "transposed_linear", "weight", {x.size(-1), -1}, x);
  require_like(bias, "transposed_linear", "bias", {weight.size(1)}, x);
  const bool differentiable = x.requires_grad() || weight.requires_grad() || bias.requires_grad();
  if (!differentiable || !torch::GradMode::is_enabled()) return transposed_rows(x, weight, bias);
  return TransposedLinear::apply(x, weight, bias);
}

std::vector<Tensor> linears(const Tensor& x, const std::vector<LinearOperands>& linears) {
  std::vector<Tensor> tensors = {x}, biases, outputs;
  Biases plan;
  bool differentiable = x.requires_grad();
  for (const auto& [weight, bias] : linears) {
    check_shapes(x, weight, bias);
    differentiable |= weight.requires_grad() || (bias.defined() && bias.requires_grad());
    tensors.push_back(weight);
    plan.there.push_back(bias.defined());
    if (bias.defined()) biases.push_back(bias);
  }
  if (differentiable && torch::GradMode::is_enabled()) {
    tensors.insert(tensors.end(), biases.begin(), biases.end());
    return Linears::apply(at::TensorList(tensors), plan);
  }
  for (const auto& [weight, bias] : linears) outputs.push_back(linear_rows(x, weight, bias));
  return outputs;
}

}  // namespace sftbench::ops
