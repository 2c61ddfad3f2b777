#include "sftbench/ranks/gpu_sharing.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace sftbench {
namespace SFTBENCH_FILE {

const std::vector<RankGpu> kApart = {{"a", "00"}, {"a", "01"}, {"b", "00"}};
const std::vector<RankGpu> kTogether = {{"a", "00"}, {"a", "01"}, {"b", "00"}, {"a", "01"}};

TEST(GpuSharing, AGpuForEachRankIsAlwaysFine) {
  EXPECT_EQ(gpu_sharing_obstacle(kApart, false, 21403), "");
  EXPECT_EQ(gpu_sharing_obstacle({{"a", "00"}}, false, 23000), "");
  EXPECT_EQ(gpu_sharing_obstacle({}, false, 23000), "");
}

TEST(GpuSharing, RanksThatHaveTheSameGpuAreNamedWithWhatWouldHelp) {
  EXPECT_EQ(gpu_sharing_obstacle(kTogether, false, 23007),
            "ranks 1 and 3 have the same GPU, 01 of a, and NCCL 2.30.7 takes one rank on each; a "
            "GPU for each rank (CUDA_VISIBLE_DEVICES) works, or, for a test, "
            "NCCL_MULTI_RANK_GPU_ENABLE=1 with NCCL 2.30 or newer");
}

TEST(GpuSharing, NcclBefore2Point30TakesOneRankWhateverTheEnvironmentSays) {
  EXPECT_EQ(gpu_sharing_obstacle(kTogether, true, 22809),
            "ranks 1 and 3 have the same GPU, 01 of a, and NCCL 2.28.9 takes one rank on each, "
            "NCCL_MULTI_RANK_GPU_ENABLE=1 or not; NCCL 2.30 or newer, or a GPU for each rank "
            "(CUDA_VISIBLE_DEVICES), works");
  EXPECT_EQ(gpu_sharing_obstacle(kTogether, true, 23000), "");
}

TEST(GpuSharing, IsAskedForInNcclsOwnWords) {
  ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  EXPECT_FALSE(ranks_may_share_gpus());
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "0", 1);
  EXPECT_FALSE(ranks_may_share_gpus());
  ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  EXPECT_TRUE(ranks_may_share_gpus());
  ::unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
