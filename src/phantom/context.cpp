#include "phantom/context.h"

#include <cstdio>

#include "phantom/settings.h"

namespace sftbench::phantom {
namespace {

thread_local int device_of_thread = 0;
thread_local cudaError_t error_of_thread = cudaSuccess;

}  // namespace

int current_device() { return device_of_thread; }

cudaError_t set_current_device(int device) {
  if (device < 0 || device >= settings().count) return noted(cudaErrorInvalidDevice);
  device_of_thread = device;
  return cudaSuccess;
}

cudaError_t noted(cudaError_t error) {
  if (error != cudaSuccess) error_of_thread = error;
  return error;
}

cudaError_t last_error(bool forget) {
  const cudaError_t error = error_of_thread;
  if (forget) error_of_thread = cudaSuccess;
  return error;
}

int unsupported(const char* function) {
  std::fprintf(stderr, "phantom device: %s is not supported\n", function);
  return noted(cudaErrorNotSupported);
}

}  // namespace sftbench::phantom
