// Of GPU builds: kernels are compiled for compute capabilities, which TORCH_CUDA_ARCH_LIST names.
#pragma once

namespace sftbench::ops {

// Whether this build's kernels were compiled for the current device.
bool has_device_code();

}  // namespace sftbench::ops
