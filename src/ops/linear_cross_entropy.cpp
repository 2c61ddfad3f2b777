#include "sftbench/ops/linear_cross_entropy.h"

#include <torch/torch.h>

#include <algorithm>

#include "ops/checks.h"
#include "ops/gemm.h"
#include "sftbench/ops/grad_accumulation.h"

namespace sftbench::ops {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kChunkBytes = int64_t{32} << 20;

// Turns a chunk's logits [n, V] into its summed loss and, if wanted, overwrites them with their
// gradient.
Tensor loss_of_chunk(Tensor& logits, const Tensor& labels, double logit_scale, double denominator,
                     bool gradient) {
  if (logit_scale != 1.0) logits.mul_(logit_scale);
  const auto wide = logits.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  const Tensor log_probabilities = at::log_softmax(logits, -1, wide);
  const Tensor column = labels.unsqueeze(-1);
  const Tensor loss = log_probabilities.gather(-1, column).sum().neg() / denominator;
  if (gradient) {
    Tensor d = log_probabilities.exp();
    d.scatter_add_(-1, column, torch::full_like(column, -1.0, d.options()));
    logits.copy_(d.mul_(logit_scale / denominator));
  }
  return loss;
}

struct Result {
  Tensor loss;
  Tensor hidden_gradient;  // [N, H]
  Tensor weight_gradient;  // [V, H], or undefined where it went into weight.grad()
};

Result compute(const Tensor& hidden, const Tensor& weight, const Tensor& labels, double logit_scale,
               double denominator, bool hidden_too, bool weight_too) {
  const torch::NoGradGuard no_grad;
  const auto wide = hidden.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
  Result result;
  result.loss = torch::zeros({}, hidden.options().dtype(wide));
  // Positions without a label have neither loss nor gradient: they are left out.
  const Tensor positions = (labels != kIgnoredLabel).nonzero().squeeze(-1);
  const int64_t count = positions.numel(), vocabulary = weight.size(0);
  const bool compact = count < hidden.size(0);
  const Tensor x = compact ? hidden.index_select(0, positions) : hidden;
  const Tensor y = compact ? labels.index_select(0, positions) : labels;
  const int64_t rows = std::max<int64_t>(1, kChunkBytes / (vocabulary * hidden.element_size()));
  const int64_t chunks = (count + rows - 1) / rows;
  Tensor dx = hidden_too ? torch::empty_like(x) : Tensor();
  Tensor logits_buffer = torch::empty({std::min(rows, count), vocabulary}, hidden.options());
  const bool add_to_grad = weight_too && accumulates_in_place(weight) && weight.grad().defined();
  Tensor dw = !weight_too   ? Tensor()
              : add_to_grad ? weight.mutable_grad()
                            : torch::empty_like(weight);
  if (weight_too && !add_to_grad && count == 0) dw.zero_();
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    const int64_t begin = count * chunk / chunks, end = count * (chunk + 1) / chunks;
    Tensor logits = logits_buffer.narrow(0, 0, end - begin);
    const Tensor x_chunk = x.slice(0, begin, end);
    matmul_nt_into(logits, x_chunk, weight);
    result.loss += loss_of_chunk(logits, y.slice(0, begin, end), logit_scale, denominator,
                                 hidden_too || weight_too);
    if (hidden_too) matmul_nn_into(dx.slice(0, begin, end), logits, weight);
    if (weight_too) matmul_tn_into(dw, logits, x_chunk, add_to_grad || chunk > 0 ? 1.0 : 0.0);
  }
  if (hidden_too) {
    result.hidden_gradient = compact ? torch::zeros_like(hidden).index_copy_(0, positions, dx) : dx;
  }
  if (!add_to_grad) result.weight_gradient = dw;
  return result;
}

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static Tensor forward(AutogradContext* ctx, const Tensor& hidden, const Tensor& weight,
                        const Tensor& labels, double logit_scale, double denominator) {
    const Result result = compute(hidden, weight, labels, logit_scale, denominator,
                                  hidden.requires_grad(), weight.requires_grad());
    ctx->save_for_backward({weight, result.hidden_gradient, result.weight_gradient});
    return result.loss;
  }

  static variable_list backward(AutogradContext* ctx, variable_list output_gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Tensor& weight = saved[0];
    Tensor hidden_gradient = saved[1];
    Tensor weight_gradient = saved[2];
    const double upstream = output_gradients[0].item<double>();
    if (weight.requires_grad() && !weight_gradient.defined() && upstream != 1.0) {
      throw std::logic_error(
          "linear_cross_entropy: the weight's gradient was added to in the forward pass, so the "
          "loss must be the "
          "root of backward() with gradient 1 (a loss scale goes into the denominator), got " +
          std::to_string(upstream));
    }
    if (upstream != 1.0) {
      if (hidden_gradient.defined()) hidden_gradient = hidden_gradient * upstream;
      if (weight_gradient.defined()) weight_gradient = weight_gradient * upstream;
    }
    if (weight_gradient.defined() && accumulates_in_place(weight)) {
      torch::Tensor& grad = weight.mutable_grad();
      if (grad.defined()) {
        grad.add_(weight_gradient);
      } else {
        grad = weight_gradient;
      }
      weight_gradient = Tensor();
    }
    return {hidden_gradient, weight_gradient, Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor linear_cross_entropy(const Tensor& hidden, const Tensor& weight, const Tensor& labels,
                            double logit_scale, double denominator) {
  constexpr const char* kOp = "linear_cross_entropy";
  require_float(hidden, kOp, "hidden");
  require(hidden.dim() == 2, kOp, "hidden must be [N, H]", describe(hidden));
  require_like(weight, kOp, "weight", {-1, hidden.size(1)}, hidden);
  require(
      labels.defined() && labels.scalar_type() == torch::kInt64 && labels.dim() == 1 &&
          labels.size(0) == hidden.size(0) && labels.device() == hidden.device(),
      kOp,
      "labels must be int64 [" + std::to_string(hidden.size(0)) + "] on " + hidden.device().str(),
      describe(labels));
  const bool differentiable =
      torch::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  if (differentiable) {
    return LinearCrossEntropy::apply(hidden.contiguous(), weight, labels, logit_scale, denominator);
  }
  return compute(hidden.contiguous(), weight, labels, logit_scale, denominator, false, false).loss;
}

}  // namespace sftbench::ops
