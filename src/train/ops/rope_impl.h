// The rotation that RoPE's forward (inverse: its backward) is made of: x [B, S, heads, D], any
// strides; cos and sin [S, D/2] or [B, S, D/2]. Returns a new contiguous tensor.
#pragma once

#include <utility>

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

torch::Tensor rotate_cpu(const torch::Tensor& x, const torch::Tensor& cos, const torch::Tensor& sin,
                         bool inverse);
torch::Tensor rotate_aten(const torch::Tensor& x, const torch::Tensor& cos,
                          const torch::Tensor& sin, bool inverse);
// q and k in one kernel, in the CUDA flavor; not for float64.
std::pair<torch::Tensor, torch::Tensor> rotate_cuda(const torch::Tensor& q, const torch::Tensor& k,
                                                    const torch::Tensor& cos,
                                                    const torch::Tensor& sin, bool inverse);

}  // namespace sftbench::ops
