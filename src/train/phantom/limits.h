// What a kernel may ask for, by the device's compute capability (CUDA C++ Programming Guide,
// "Technical Specifications per Compute Capability").
#pragma once

#include <cstddef>

namespace sftbench::phantom {

size_t shared_memory_opt_in();  // bytes of a block
int threads_per_multiprocessor();

}  // namespace sftbench::phantom
