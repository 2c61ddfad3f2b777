// The implementation of update.h that is not in update.cpp.
#pragma once

#include <vector>

#include "sftbench/ops/update.h"

namespace sftbench::ops {

// In the CUDA flavor; not for float64. Contiguous tensors on one device; the states of a tensor are
// of one dtype. Many tensors share a launch. Where `on_device` is defined, its numbers are the
// factors (update.h).
void update_cuda(UpdateRule rule, const std::vector<UpdatedTensor>& tensors,
                 const RuleFactors<float>& factors, const torch::Tensor& on_device = {});

}  // namespace sftbench::ops
