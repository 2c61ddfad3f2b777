// What a thread of the program knows of the device: which one is current, and its last error.
#pragma once

#include <cuda_runtime_api.h>

namespace sftbench::phantom {

int current_device();
cudaError_t set_current_device(int device);

// Remembers an error until the program asks for it, and hands it on.
cudaError_t noted(cudaError_t error);
cudaError_t last_error(bool forget);

// A call of a function that the phantom does not have: one line on stderr with its name.
int unsupported(const char* function);

}  // namespace sftbench::phantom
