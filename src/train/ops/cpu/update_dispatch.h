// The loops of update.h for a tensor's dtype on this processor.
#pragma once

#include <torch/types.h>

#include "ops/cpu/update.h"

namespace sftbench::ops {

// For float32, bfloat16 and float16.
const CpuUpdateKernels& cpu_update_kernels(const torch::Tensor& parameter);

}  // namespace sftbench::ops
