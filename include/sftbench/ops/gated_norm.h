// The end of a Mamba-2 mixer (MambaRMSNormGated of Hugging Face, RMSNormGated of mamba_ssm): the
// scan's result is gated, and normalized over each group of channels, in float32. Rounded once, as
// mamba_ssm's kernel does.
#pragma once

#include <torch/types.h>

namespace sftbench::ops {

// y, gate [..., I] of one dtype; weight [I] of that or float32; `groups` divides I, of W channels
// each -> [..., I] of y's dtype with   v = y * silu(gate),  out = v / sqrt(mean over its group of
// v^2 + epsilon) * weight. Channels of the gate must lie side by side, rows may be farther apart: a
// slice of the input projection is read where it lies. Differentiable in all three. Keeps them and
// a number in float32 for each row and group.
torch::Tensor gated_rms_norm(const torch::Tensor& y, const torch::Tensor& gate,
                             const torch::Tensor& weight, int64_t groups, double epsilon);

}  // namespace sftbench::ops
