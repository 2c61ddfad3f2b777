#include "ops/cross_entropy_impl.h"
#include "ops/shapes.h"

#include "sftbench/base/torch.h"

namespace sftbench::ops {

using torch::Tensor;

Tensor cross_entropy_aten(Tensor& logits, const Tensor& labels, double logit_scale,
                          double gradient_scale, const Tensor& /*divisor*/) {
  if (logit_scale != 1.0) logits.mul_(logit_scale);
  const auto wide = wide_dtype(logits);
  Tensor log_probabilities = at::log_softmax(logits, -1, wide);
  const Tensor labeled = (labels >= 0).unsqueeze(-1);
  const Tensor column = labels.clamp_min(0).unsqueeze(-1);
  const Tensor of_label = log_probabilities.gather(-1, column).masked_fill_(~labeled, 0);
  const Tensor loss = of_label.sum(torch::kFloat64).neg();
  if (gradient_scale != 0.0) {
    Tensor gradient = log_probabilities.exp_();
    gradient.scatter_add_(-1, column, torch::full(column.sizes(), -1.0, gradient.options()));
    logits.copy_(gradient.mul_(labeled.to(wide) * (logit_scale * gradient_scale)));
  }
  return loss;
}

}  // namespace sftbench::ops
