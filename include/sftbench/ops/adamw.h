// AdamW (Loshchilov and Hutter 2019) over a list of tensors in one pass over memory; the arithmetic in float32,
// rounded once when a value is stored, as torch.optim.AdamW(fused=True) does.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace sftbench::ops {

struct AdamWStep {
  double learning_rate;
  double beta1, beta2, epsilon, weight_decay;
  int64_t step;                // 1-based, for bias correction
  double gradient_scale = 1.0;  // gradients are multiplied by this first (clipping), without being written back
};

// All four lists match in length, shape, dtype and device; parameters and both moments are updated in place.
void adamw_step(const std::vector<torch::Tensor>& parameters, const std::vector<torch::Tensor>& gradients,
                const std::vector<torch::Tensor>& first_moments, const std::vector<torch::Tensor>& second_moments,
                const AdamWStep& step);

// sqrt(sum of squares of all elements of all tensors), accumulated in float32 blocks and float64 over blocks.
double global_norm(const std::vector<torch::Tensor>& tensors);

}  // namespace sftbench::ops
