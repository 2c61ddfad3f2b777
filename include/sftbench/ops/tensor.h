// torch::Tensor, its dtypes, and what makes an empty one: all that a kernel's file needs of
// libtorch. nvcc reads its headers once for the host and once for each architecture. Of
// <torch/types.h> that takes half of its time, so it gets the few that are used.
#pragma once

#ifdef __CUDACC__
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

namespace torch {

using namespace at;  // NOLINT: as in <torch/types.h>
using Dtype = at::ScalarType;
constexpr auto kFloat16 = at::kHalf;
constexpr auto kFloat32 = at::kFloat;
constexpr auto kFloat64 = at::kDouble;

}  // namespace torch
#else
#include <torch/types.h>
#endif
