#include "sftbench/ranks/gpu_sharing.h"

#include <cstdlib>
#include <map>
#include <utility>

namespace sftbench {
namespace {

constexpr int kFirstVersion = 23000;  // that lets ranks share: 2.30.0

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

bool ranks_may_share_gpus() {
  const char* value = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return value != nullptr && std::string(value) == "1";
}

std::string gpu_sharing_obstacle(const std::vector<RankGpu>& gpu_of_rank, bool may_share,
                                 int nccl_version) {
  if (may_share && nccl_version >= kFirstVersion) return {};
  std::map<std::pair<std::string, std::string>, size_t> first_ranks;
  size_t rank = 0;
  for (const RankGpu& one : gpu_of_rank) {
    const auto [first, is_first] = first_ranks.emplace(std::pair(one.host, one.gpu), rank);
    if (!is_first) {
      return "ranks " + std::to_string(first->second) + " and " + std::to_string(rank) +
             " have the same GPU, " + one.gpu + " of " + one.host + ", and NCCL " +
             version_text(nccl_version) + " takes one rank on each" +
             (may_share ? ", NCCL_MULTI_RANK_GPU_ENABLE=1 or not; NCCL 2.30 or newer, or a GPU for "
                          "each rank (CUDA_VISIBLE_DEVICES), works"
                        : "; a GPU for each rank (CUDA_VISIBLE_DEVICES) works, or, for a test, "
                          "NCCL_MULTI_RANK_GPU_ENABLE=1 with NCCL 2.30 or newer");
    }
    ++rank;
  }
  return {};
}

}  // namespace sftbench
