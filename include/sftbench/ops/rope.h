// Rotary position embedding (Su et al. 2021) in Hugging Face's half-split form: element i of the
// first half of a head is rotated with element i of the second half.
#pragma once

#include <torch/types.h>

#include <tuple>

namespace sftbench::ops {

// q [B, S, H, D], k [B, S, K, D]; cos, sin [S, D/2] or [B, S, D/2], rounded to q's dtype as Hugging
// Face does (scaling factors of the RoPE variant included). Returns rotated q and k, new tensors.
// Differentiable in q and k; keeps nothing but cos and sin for the backward.
std::tuple<torch::Tensor, torch::Tensor> apply_rope(const torch::Tensor& q, const torch::Tensor& k,
                                                    const torch::Tensor& cos,
                                                    const torch::Tensor& sin);

}  // namespace sftbench::ops
