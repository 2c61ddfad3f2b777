// A frozen linear over weights that GPTQ has quantized (families/gptq.h): y = x W^T + b, of which
// only x gets a gradient. W exists tile by tile, in a bounded workspace, while it is multiplied
// (ops/dequantize.h); nothing of it is kept between forward and backward.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/families/gptq.h"
#include "sftbench/model/linear.h"
#include "sftbench/ops/dequantize.h"

namespace sftbench {

class GptqLinear : public Linear {
 public:
  // Codes are int32 and scales float16 whatever dtype `options` ask for: as files have them.
  // REQUIRES: in_features and out_features are multiples of kGptqPackedCodes.
  GptqLinear(int64_t in_features, int64_t out_features, bool bias, const GptqConfig& config,
             torch::TensorOptions options);

  torch::Tensor forward(const torch::Tensor& x) override;
  int64_t in_features() const override { return weight_.g_idx.size(0); }
  int64_t out_features() const override { return weight_.scales.size(1); }
  void append_parameters(const std::string& name, std::vector<NamedParameter>& parameters) override;
  void set_compute_dtype(torch::Dtype dtype) override { compute_dtype_ = dtype; }

  const GptqConfig& config() const { return config_; }
  const ops::GptqWeight& weight() const { return weight_; }

  // Fills the codes, and what belongs to them, with the nearest that they can say to the dense
  // weight that the initializer draws for `key`: normal(0, stddev).
  void quantize_normal(uint64_t key, float stddev);

 private:
  GptqConfig config_;
  ops::GptqWeight weight_;
  torch::Tensor bias_;  // [out], or undefined
  std::optional<torch::Dtype> compute_dtype_;
};

}  // namespace sftbench
