// A frozen linear over a weight in NF4 (families/nf4.h): y = x W^T + b, of which only x gets a
// gradient. W exists tile by tile, as of GptqLinear.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/families/nf4.h"
#include "sftbench/model/linear.h"
#include "sftbench/ops/nf4.h"

namespace sftbench {

class Nf4Linear : public Linear {
 public:
  // The weight's tensors have their dtypes whatever `options` ask for, which the bias gets.
  Nf4Linear(int64_t in_features, int64_t out_features, bool bias, const Nf4Config& config,
            torch::TensorOptions options);

  torch::Tensor forward(const torch::Tensor& x) override;
  torch::Tensor dense_rows(int64_t first, int64_t count) const override;
  torch::Tensor bias() const override { return bias_; }
  int64_t in_features() const override { return weight_.in; }
  int64_t out_features() const override { return weight_.out; }
  void append_parameters(const std::string& name, std::vector<NamedParameter>& parameters) override;
  void set_compute_dtype(torch::Dtype dtype) override { compute_dtype_ = dtype; }

  // What the dense weight would have: it is rounded to that before it is quantized.
  torch::Dtype dense_dtype() const { return dense_dtype_; }
  ops::Nf4Weight& weight() { return weight_; }

 private:
  ops::Nf4Weight weight_;
  torch::Tensor bias_;  // [out], or undefined
  torch::Dtype dense_dtype_;
  std::optional<torch::Dtype> compute_dtype_;
};

}  // namespace sftbench
