#include "sftbench/launch/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace sftbench {
namespace {

namespace fs = std::filesystem;

int number_in(const fs::path& file, int otherwise) {
  int number = otherwise;
  std::ifstream(file) >> number;
  return number;
}

// "0-3,8" -> 0, 1, 2, 3, 8.
std::vector<int> parse_cpu_list(std::istream&& list) {
  std::vector<int> cores;
  for (int first = 0; list >> first; list.ignore(1, ',')) {
    int last = first;
    if (list.peek() == '-') list.ignore(1) >> last;
    for (int core = first; core <= last; ++core) cores.push_back(core);
  }
  return cores;
}

// The PCI address "0000:1b:00.0"; empty when the driver knows no such GPU.
std::string pci_address(const std::string& uuid, const fs::path& root) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root / "proc/driver/nvidia/gpus", none)) {
    std::ifstream information(entry.path() / "information");
    for (std::string word; information >> word;) {
      if (word == uuid) return entry.path().filename();
    }
  }
  return {};
}

}  // namespace

std::vector<int> affinity_cores() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return {0};
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &mask)) cores.push_back(core);
  }
  return cores;
}

bool keep_to_cores(const std::vector<int>& cores) {
  if (cores.empty()) return true;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<size_t>(core), &set);
  return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

std::vector<int> by_neighborhood(std::vector<int> cores, const fs::path& root) {
  std::vector<std::tuple<int, int, int>> places;  // socket, physical core, number
  for (const int core : cores) {
    const fs::path topology =
        root / "sys/devices/system/cpu" / ("cpu" + std::to_string(core)) / "topology";
    places.emplace_back(number_in(topology / "physical_package_id", 0),
                        number_in(topology / "core_id", core), core);
  }
  std::sort(places.begin(), places.end());
  std::transform(places.begin(), places.end(), cores.begin(),
                 [](const auto& place) { return std::get<2>(place); });
  return cores;
}

std::vector<CoreShare> divide_cores(const std::vector<int>& cores, int64_t ranks,
                                    int64_t threads_per_rank) {
  const auto count = static_cast<int64_t>(cores.size());
  const int64_t share = count / ranks;
  const int64_t threads = threads_per_rank > 0 ? threads_per_rank : std::max<int64_t>(1, share);
  std::vector<CoreShare> shares(static_cast<size_t>(ranks), {{}, threads});
  if (share < threads) return shares;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const auto begin = cores.begin() + rank * share;
    shares[static_cast<size_t>(rank)].cores.assign(begin, begin + share);
  }
  return shares;
}

std::vector<int> cores_near_gpu(const std::string& uuid, const fs::path& root) {
  const std::string address = pci_address(uuid, root);
  if (address.empty()) return {};
  return parse_cpu_list(std::ifstream(root / "sys/bus/pci/devices" / address / "local_cpulist"));
}

std::vector<CoreShare> divide_cores_near(const std::vector<std::vector<int>>& near_ranks,
                                         const std::vector<int>& cores, int64_t threads_per_rank) {
  const auto ranks = static_cast<int64_t>(near_ranks.size());
  std::vector<CoreShare> shares = divide_cores(cores, ranks, threads_per_rank);
  for (CoreShare& share : shares) share.cores.clear();
  std::map<std::vector<int>, std::vector<size_t>> ranks_near;  // the same cores
  for (size_t rank = 0; rank < near_ranks.size(); ++rank) {
    std::vector<int> usable;
    std::copy_if(cores.begin(), cores.end(), std::back_inserter(usable), [&](int core) {
      return std::count(near_ranks[rank].begin(), near_ranks[rank].end(), core) > 0;
    });
    if (!usable.empty()) ranks_near[usable].push_back(rank);
  }
  for (const auto& [usable, neighbours] : ranks_near) {
    const auto parts =
        divide_cores(usable, static_cast<int64_t>(neighbours.size()), threads_per_rank);
    for (size_t i = 0; i < neighbours.size(); ++i) shares[neighbours[i]] = parts[i];
  }
  return shares;
}

}  // namespace sftbench
