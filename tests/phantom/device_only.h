// Operators whose kernels on a device have no equal on a CPU.
#pragma once

#include <torch/library.h>

#include "sftbench/base/torch.h"

namespace sftbench::phantom {

// A generator of the CPU that goes on where the device's stands. Its numbers are not those of a
// GPU.
at::Generator host_generator(const c10::optional<at::Generator>& given);

void register_device_only(torch::Library& library);

}  // namespace sftbench::phantom
