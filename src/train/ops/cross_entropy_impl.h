// Cross-entropy of contiguous logits [N, V] times logit_scale (the product rounded to the logits'
// dtype) against labels [N], all inside the vocabulary. A row whose label is negative has no loss
// and no gradient (cross_entropy_aten; cross_entropy_cpu takes none). Returns the sum over rows in
// float64, a scalar on the logits' device. Unless gradient_scale is 0 the logits are overwritten
// with their gradient times gradient_scale / divisor (float64 scalar; undefined: 1).
#pragma once

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

// Both without a divisor.
torch::Tensor cross_entropy_cpu(torch::Tensor& logits, const torch::Tensor& labels,
                                double logit_scale, double gradient_scale,
                                const torch::Tensor& divisor);
torch::Tensor cross_entropy_aten(torch::Tensor& logits, const torch::Tensor& labels,
                                 double logit_scale, double gradient_scale,
                                 const torch::Tensor& divisor);
// In the CUDA flavor; not for float64. Labels may be kIgnoredLabel: no loss, and a gradient of
// zeros. One outside the vocabulary makes the loss NaN.
torch::Tensor cross_entropy_cuda(torch::Tensor& logits, const torch::Tensor& labels,
                                 double logit_scale, double gradient_scale,
                                 const torch::Tensor& divisor = {});

}  // namespace sftbench::ops
