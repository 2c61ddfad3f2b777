#include "sftbench/launch/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <tuple>
#include <utility>

namespace sftbench {
namespace {

int number_in(const std::filesystem::path& file, int otherwise) {
  int number = otherwise;
  std::ifstream(file) >> number;
  return number;
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

std::vector<int> by_neighbourhood(std::vector<int> cores, const std::filesystem::path& root) {
  std::vector<std::tuple<int, int, int>> places;  // socket, physical core, number
  for (const int core : cores) {
    const std::filesystem::path topology =
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

}  // namespace sftbench
