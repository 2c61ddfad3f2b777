// Several ranks on one GPU. NCCL takes one rank on each, since two would wait for each other's
// kernels; from 2.30 on NCCL_MULTI_RANK_GPU_ENABLE=1 lets it take more (experimental, about two).
// That is for tests of several ranks where there is one GPU: their figures are of shared hardware.
#pragma once

#include <string>
#include <vector>

namespace sftbench {

// The environment has NCCL_MULTI_RANK_GPU_ENABLE=1.
bool ranks_may_share_gpus();

struct RankGpu {
  std::string host;
  std::string gpu;  // its UUID
};

// Why NCCL of this version (as ncclGetVersion says it) will not connect these ranks, by rank, with
// what would help; empty when each has a GPU of its own, or they may share.
std::string gpu_sharing_obstacle(const std::vector<RankGpu>& gpu_of_rank, bool may_share,
                                 int nccl_version);

}  // namespace sftbench
