// The output projection and the cross-entropy in one: logits exist for a chunk of positions at a
// time, their gradient overwrites them, and neither ever exists for the whole batch (Liger Kernel's
// fused linear cross-entropy, Hsu et al. 2024). The gradients are computed in the forward pass,
// while the chunk's logits are at hand.
#pragma once

#include <cstdint>

#include "sftbench/ops/logit_form.h"
#include "sftbench/ops/loss_denominator.h"
#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

inline constexpr int64_t kIgnoredLabel = -100;

// A product that is added to the logits before form.of(): hidden weight^T of an adapter. Both of
// the dtype of the others.
struct LogitAddend {
  torch::Tensor hidden;  // [N, r]; undefined: there is none
  torch::Tensor weight;  // [V, r]
};

// hidden [N, H], weight [V, H] of one dtype, labels [N] int64 (kIgnoredLabel: no loss) ->
// float32 scalar: sum over positions of cross-entropy(logits, label) / denominator, with
// logits = form.of(hidden weight^T) rounded to hidden's dtype, then float32, as Hugging Face
// computes them. Positions are used as given: the caller has shifted the labels. Differentiable in
// hidden and weight, and those of the addend, once. The gradient of a leaf weight that has one
// already is added to in the forward pass, for an upstream gradient of 1: make the loss the root of
// backward() and put a loss scale into the denominator (std::logic_error otherwise).
// std::invalid_argument for labels outside the vocabulary, and for a denominator on a device whose
// kernels are not ours (checks.h). Extra memory: one chunk of logits, of their slopes too where
// they have a cap, hidden's gradient, and weight's gradient if it has none yet. A chunk takes at
// most 32 MiB on CPUs, and 128 MiB for bfloat16 where multiplies_tiles() of
// base/cpu_instructions.h.
torch::Tensor linear_cross_entropy(const torch::Tensor& hidden, const torch::Tensor& weight,
                                   const torch::Tensor& labels, const LogitForm& form,
                                   const LossDenominator& denominator,
                                   const LogitAddend& addend = {});

}  // namespace sftbench::ops
