#include "phantom/context.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "phantom/settings.h"

namespace sftbench::phantom {
namespace {

thread_local int device_of_thread = 0;
thread_local cudaError_t error_of_thread = cudaSuccess;
std::atomic<int64_t> synchronizations{0};

int device_named(const std::string& text) {
  for (int device = 0; device < settings().count; ++device)
    if (text == std::to_string(device) || text == uuid_text(device)) return device;
  return -1;
}

std::vector<int> read_visible_devices() {
  std::vector<int> devices;
  const char* const text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (int device = 0; device < settings().count; ++device) devices.push_back(device);
    return devices;
  }
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const int device = device_named(entry);
    if (device < 0) break;
    devices.push_back(device);
  }
  return devices;
}

}  // namespace

void load_operators() {
  static const bool loaded = [] {
    if (!settings().computes()) return true;
    if (dlopen(settings().operators.c_str(), RTLD_NOW | RTLD_LOCAL) != nullptr) return true;
    std::fprintf(stderr, "phantom device: %s\n", dlerror());
    std::_Exit(2);
  }();
  static_cast<void>(loaded);
}

const std::vector<int>& visible_devices() {
  static const std::vector<int> read_once = read_visible_devices();
  return read_once;
}

int device_count() {
  return static_cast<int>(visible_devices().size());
}

// The bytes of CUDA's: "sftbench phanto" and the device's number.
std::string uuid_text(int device_of_machine) {
  char text[64];
  std::snprintf(text, sizeof text, "GPU-73667462-656e-6368-2070-68616e746f%02x", device_of_machine);
  return text;
}

int current_device() {
  return device_of_thread;
}

cudaError_t set_current_device(int device) {
  if (device < 0 || device >= device_count()) return noted(cudaErrorInvalidDevice);
  device_of_thread = device;
  return cudaSuccess;
}

uintptr_t id(cudaStream_t stream) {
  return reinterpret_cast<uintptr_t>(stream);
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

void count_synchronization() {
  ++synchronizations;
}

cudaError_t device_state() {
  const int64_t broken_at = settings().illegal_access_at;
  const bool broken = broken_at > 0 && synchronizations >= broken_at;
  return broken ? noted(cudaErrorIllegalAddress) : cudaSuccess;
}

int unsupported(const char* function) {
  std::fprintf(stderr, "phantom device: %s is not supported\n", function);
  return noted(cudaErrorNotSupported);
}

}  // namespace sftbench::phantom
