// NVIDIA's management library, loaded at run time: one build runs on machines with and without
// NVIDIA's driver. Only the handful of functions that a measurement needs is declared, after the
// "NVML API Reference Guide" (ABI of libnvidia-ml.so.1, stable since driver 418).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sftbench/measure/system_source.h"

namespace sftbench {

struct GpuIdentity {
  std::string name;  // product name: "NVIDIA H100 80GB HBM3"
  std::string uuid;
  int64_t memory_bytes = 0;
};

class Nvml {
 public:
  // nullptr when there is no driver, with the reason in `why_not` (if given). `library` is the file
  // to load.
  static std::unique_ptr<Nvml> load(std::string* why_not = nullptr,
                                    const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  const std::string& driver_version() const { return driver_version_; }

  // The devices that this process may use, in CUDA's order: those that CUDA_VISIBLE_DEVICES names
  // by index or UUID, else all. CUDA numbers like devices as NVML does, by PCI address.
  const std::vector<GpuIdentity>& gpus() const { return gpus_; }

  // REQUIRES: 0 <= index < gpus().size(). Never throws: what cannot be read is left out.
  GpuReading read(size_t index) const;

  struct Library;  // measure/nvml_library.h

 private:
  explicit Nvml(std::unique_ptr<Library> library);
  void find_devices();

  std::unique_ptr<Library> library_;
  std::string driver_version_;
  std::vector<GpuIdentity> gpus_;
  std::vector<void*> handles_;
};

// The devices of `count` that a CUDA_VISIBLE_DEVICES text leaves, as indices; UUIDs (whole or as an
// unambiguous beginning) are looked up in `uuids`. As in CUDA, the list ends at the first entry
// that names no device. nullptr: the variable is not set, all are visible.
std::vector<size_t> visible_devices(const char* text, const std::vector<std::string>& uuids);

}  // namespace sftbench
