// Attention that libtorch brings along: FlashAttention and cuDNN's, for GPUs, from 2.x on. Shapes
// as in attention.h; differentiable by themselves. Dropout is theirs, too: drawn from the device's
// generator, which is seeded for each call, so that a recomputed layer drops the same.
#pragma once

#include <torch/types.h>

#include <cstdint>

#include "sftbench/ops/attention.h"

namespace sftbench::ops {

// Whether there is one for these tensors: none on CPUs and in libtorch 1.13; a sliding window only
// where FlashAttention takes packed sequences.
bool has_library_attention(const torch::Tensor& q, int64_t window, const PackedSequences& packed);

// REQUIRES: has_library_attention().
torch::Tensor library_attention(const torch::Tensor& q, const torch::Tensor& k,
                                const torch::Tensor& v, double scale, int64_t window,
                                const PackedSequences& packed, const Dropout& dropout);

}  // namespace sftbench::ops
