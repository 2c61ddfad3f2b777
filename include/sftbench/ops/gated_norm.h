// The end of a Mamba-2 mixer (MambaRMSNormGated of Hugging Face, RMSNormGated of mamba_ssm): the
// scan's result is gated, and normalized over each group of channels, in float32. Rounded once, as
// mamba_ssm's kernel does.
#pragma once

#include <torch/types.h>

namespace sftbench::ops {

// y, gate [..., I] of one dtype; weight [I] of that or float32; out [..., I] of y's dtype. Each of
// the `groups` of channels is normalized by itself:
//   v = y * silu(gate),  out = v / sqrt(mean of v^2 over the group + epsilon) * weight
// Channels of the gate must lie side by side. Its rows may be farther apart: a slice of the input
// projection is read where it lies. Differentiable in all three. Keeps them, and a float32 for each
// row and group.
torch::Tensor gated_rms_norm(const torch::Tensor& y, const torch::Tensor& gate,
                             const torch::Tensor& weight, int64_t groups, double epsilon);

}  // namespace sftbench::ops
