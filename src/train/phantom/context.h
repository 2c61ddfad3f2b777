// What a thread of the program knows of the device: which one is current, and its last error.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <vector>

namespace sftbench::phantom {

// The machine's devices that CUDA_VISIBLE_DEVICES leaves to this process, in the order that it
// gives them: numbers, or UUIDs as NVML spells them. An entry that is no device ends the list, as
// CUDA's.
const std::vector<int>& visible_devices();
int device_count();  // of these

int current_device();
cudaError_t set_current_device(int device);

std::string uuid_text(int device_of_machine);

// Loads the library of operators that compute on the host (tests/phantom), once. To be called with
// libtorch's first question about a device, when it has registered the kernels that they replace.
void load_operators();

// What Streams (phantom/streams.h) calls it.
uintptr_t id(cudaStream_t stream);

// Remembers an error until the program asks for it, and hands it on.
cudaError_t noted(cudaError_t error);
cudaError_t last_error(bool forget);

// Settings::illegal_access_at: counts a synchronization of the whole device, and says what every
// call returns once the device is broken, since the error does not go away.
void count_synchronization();
cudaError_t device_state();

// A call of a function that the phantom does not have: one line on stderr with its name.
int unsupported(const char* function);

}  // namespace sftbench::phantom
