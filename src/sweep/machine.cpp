#include "sftbench/sweep/machine.h"

#include <algorithm>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/launch/devices.h"

namespace sftbench {

Machine::Machine(std::vector<int> cores, std::vector<GpuIdentity> gpus, const GpuCatalog& catalog,
                 int64_t jobs)
    : free_cores_(std::move(cores)), cores_(free_cores_.size()), catalog_(catalog), jobs_(jobs) {
  for (GpuIdentity& gpu : gpus) gpus_.push_back({std::move(gpu), true});
}

// GPUs bring their part of the cores with them; on the CPU the cores are what is divided.
size_t Machine::core_count(const Demand& demand) const {
  if (!demand.computes) return 0;
  if (demand.threads_per_rank > 0) {
    return static_cast<size_t>(demand.threads_per_rank * demand.ranks);
  }
  if (demand.gpus > 0) {
    const size_t part =
        cores_ * static_cast<size_t>(demand.gpus) / std::max<size_t>(1, gpus_.size());
    return std::max<size_t>(1, part);
  }
  const size_t part = cores_ / static_cast<size_t>(std::max<int64_t>(1, jobs_));
  return std::max(static_cast<size_t>(demand.ranks), part);
}

bool Machine::matches(const Gpu& gpu, const Demand& demand) const {
  return same_gpu_model(demand.gpu_model, gpu.identity.name, catalog_);
}

bool Machine::fits(const Demand& demand) const {
  if (!demand.computes) return true;
  const auto matching = std::count_if(gpus_.begin(), gpus_.end(),
                                      [&](const Gpu& gpu) { return matches(gpu, demand); });
  return core_count(demand) <= cores_ && demand.gpus <= matching;
}

std::vector<size_t> Machine::free_gpus(const Demand& demand) const {
  std::vector<size_t> chosen;
  for (size_t i = 0; i < gpus_.size() && chosen.size() < static_cast<size_t>(demand.gpus); ++i) {
    if (gpus_[i].free && matches(gpus_[i], demand)) chosen.push_back(i);
  }
  return chosen;
}

bool Machine::has_room(const Demand& demand) const {
  if (running_ >= most_at_a_time()) return false;
  if (!demand.computes) return true;
  return core_count(demand) <= free_cores_.size() &&
         free_gpus(demand).size() == static_cast<size_t>(demand.gpus);
}

Share Machine::take(const Demand& demand) {
  check(has_room(demand), "a share is taken only where there is room");
  ++running_;
  Share share;
  if (!demand.computes) return share;
  const auto end = free_cores_.begin() + static_cast<std::ptrdiff_t>(core_count(demand));
  share.cores.assign(free_cores_.begin(), end);
  free_cores_.erase(free_cores_.begin(), end);
  for (const size_t i : free_gpus(demand)) {
    gpus_[i].free = false;
    share.gpus.push_back(gpus_[i].identity.uuid);
  }
  return share;
}

void Machine::give_back(const Share& share) {
  --running_;
  free_cores_.insert(free_cores_.end(), share.cores.begin(), share.cores.end());
  std::sort(free_cores_.begin(), free_cores_.end());
  for (Gpu& gpu : gpus_) {
    const auto given = std::find(share.gpus.begin(), share.gpus.end(), gpu.identity.uuid);
    if (given != share.gpus.end()) gpu.free = true;
  }
}

int64_t Machine::most_at_a_time() const {
  return jobs_ > 0 ? jobs_ : std::max<int64_t>(1, static_cast<int64_t>(cores_));
}

}  // namespace sftbench
