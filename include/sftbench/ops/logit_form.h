// What becomes of the output projection's products before the softmax.
#pragma once

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

struct LogitForm {
  // NOLINTNEXTLINE(google-explicit-constructor): nearly all are a factor alone
  LogitForm(double factor = 1, double logit_cap = 0) : scale(factor), cap(logit_cap) {}

  // Times `scale`, and cap tanh(that / cap) where there is a cap. Differentiable.
  torch::Tensor of(const torch::Tensor& logits) const;

  double scale;
  double cap;  // 0: none (Gemma 2)
};

}  // namespace sftbench::ops
