// The linear layers of a mixture of experts: y = x W_e^T + b_e for rows that are sorted by expert
// (ops/route.h), as the grouped products of MegaBlocks (Gale et al. 2022) and ScatterMoE (Tan et
// al. 2024) compute them. No row is copied, no expert is padded to a capacity, and weights are used
// where they lie.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

namespace sftbench::ops {

// How the matrix of one expert lies in memory: as linear layers have it, or transposed (gpt_oss).
enum class ExpertLayout { kOutIn, kInOut };

// x [T, in]; weights [E, out, in], or [E, in, out] with kInOut; offsets [E + 1]: expert e has the
// rows from offsets[e] to offsets[e + 1], from 0 to T in ascending order; bias [E, out] or
// undefined -> [T, out], all of one dtype and device. Differentiable in x, weights and bias. Sums
// are float32 at least and rounded once. Keeps x only if the weights require a gradient. A leaf's
// gradient is added to its .grad (grad_accumulation.h); an expert without rows has zeros. Experts
// are dealt to threads in blocks that depend on the shapes only. On a GPU each expert's product is
// a launch. GPUs of compute capability 9 and 10 take all experts in one launch, in bfloat16. A bias
// is then added to the rounded product, as Hugging Face adds it.
torch::Tensor grouped_linear(const torch::Tensor& x, const torch::Tensor& weights,
                             const std::vector<int64_t>& offsets, const torch::Tensor& bias = {},
                             ExpertLayout layout = ExpertLayout::kOutIn);

// The same with a tensor for each expert, as checkpoints of Mixtral have them: E of [out, in] or
// [in, out].
torch::Tensor grouped_linear(const torch::Tensor& x, const std::vector<torch::Tensor>& weights,
                             const std::vector<int64_t>& offsets, const torch::Tensor& bias = {},
                             ExpertLayout layout = ExpertLayout::kOutIn);

}  // namespace sftbench::ops
