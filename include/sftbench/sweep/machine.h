// What this machine has to give to measurements that run at the same time: its GPUs and the cores
// that this process may use. Each measurement gets a share of its own; shares never overlap, so
// that no measurement sees another's device and no core works for two. What a measurement may use
// is thereby also what it is pinned to.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "sftbench/catalog/gpus.h"
#include "sftbench/measure/nvml.h"

namespace sftbench {

// What one measurement needs.
struct Demand {
  int64_t ranks = 1;             // processes on this machine
  int64_t threads_per_rank = 0;  // 0: all cores of the share
  int64_t gpus = 0;
  std::string gpu_model;  // of each of them
  bool computes = true;   // false: simulated, needs neither cores nor GPUs
};

// What it gets. Empty lists: nothing is reserved, nothing is pinned.
struct Share {
  std::vector<int> cores;         // numbers, as in an affinity mask
  std::vector<std::string> gpus;  // UUIDs, for CUDA_VISIBLE_DEVICES

  // Of each rank, 1 at least.
  int64_t threads_of(int64_t ranks) const {
    return std::max<int64_t>(1, std::ssize(cores) / std::max<int64_t>(1, ranks));
  }
};

class Machine {
 public:
  // `jobs`: at most so many measurements at a time, between which the cores are divided; 0: as many
  // as have room, where a measurement on the CPU that names no threads takes all cores.
  Machine(std::vector<int> cores, std::vector<GpuIdentity> gpus, const GpuCatalog& catalog,
          int64_t jobs);

  // Would there be room if nothing else ran? Is there now?
  bool fits(const Demand& demand) const;
  bool has_room(const Demand& demand) const;

  // REQUIRES: has_room(demand).
  Share take(const Demand& demand);
  void give_back(const Share& share);

  size_t cores() const { return cores_; }

  // The most measurements that can ever run at the same time.
  int64_t most_at_a_time() const;

 private:
  struct Gpu {
    GpuIdentity identity;
    bool free = true;
  };

  size_t core_count(const Demand& demand) const;
  std::vector<size_t> free_gpus(const Demand& demand) const;  // as many as it needs, or fewer
  bool matches(const Gpu& gpu, const Demand& demand) const;

  std::vector<int> free_cores_;  // in order
  size_t cores_;                 // free or not
  std::vector<Gpu> gpus_;
  const GpuCatalog& catalog_;
  int64_t jobs_;
  int64_t running_ = 0;
};

}  // namespace sftbench
