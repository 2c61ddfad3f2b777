// What is known of each GPU product: peaks that model FLOPs utilization divides by, memory,
// bandwidth (config/gpus.yaml). Peaks are dense (no structured sparsity). A product that is not
// listed has no peak: MFU is then null with a reason, never a guess.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace sftbench {

struct GpuFacts {
  std::string name;                  // as ado's gpu_model spells it: "NVIDIA-H100-80GB-HBM3"
  std::vector<std::string> aliases;  // other spellings: NVML's "NVIDIA H100 80GB HBM3"
  std::string architecture;          // "Hopper"
  std::string compute_capability;    // "9.0"
  std::map<std::string, double>
      peak_flops_per_s;  // dtype -> dense peak: float32, tf32, bfloat16, float16, fp8
  double memory_bandwidth_bytes_per_s = 0;
  int64_t memory_bytes = 0;
  std::optional<int64_t> usable_memory_bytes;  // what CUDA reports, where that is known to be less
  int64_t multiprocessors = 0;
  // The most that the board takes unless it is set otherwise.
  std::optional<double> board_power_watts;
  std::string source;
  std::string note;

  // What a program can have of the memory, its context among it.
  int64_t memory_of_programs() const { return usable_memory_bytes.value_or(memory_bytes); }

  // Why the engine that setup.sh builds, with CUDA 13, does not train on it. Empty where it does.
  std::string obstacle() const;

  // Nothing when the device has no such unit.
  std::optional<double> peak_flops(const std::string& dtype) const;
};

class GpuCatalog {
 public:
  // InputError with everything that is wrong with the file.
  static GpuCatalog read(const std::string& path);

  const std::vector<GpuFacts>& gpus() const { return gpus_; }

  // By name or alias; letter case, spaces, dashes and underscores do not matter. nullptr when
  // unknown.
  const GpuFacts* find(std::string_view name) const;
  std::vector<std::string> names() const;

 private:
  std::vector<GpuFacts> gpus_;
  std::unordered_map<std::string, size_t> places_;  // by every name, normalized
};

// The name of a GPU in results and keys: the shipped catalog's name for `gpu`, which may be an
// alias. `gpu` itself where the catalog does not know it.
std::string product_name(const std::string& gpu);

}  // namespace sftbench
