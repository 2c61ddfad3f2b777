// Connections of others to the ports of ranks that are about to connect with each other over Gloo.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "parallel/rank_processes.h"
#include "ranks/hammer_of_test.h"
#include "sftbench/base/torch.h"
#include "sftbench/parallel/process_mesh.h"

namespace sftbench {
namespace SFTBENCH_FILE {

class StrangersAtGlooTest : public ::testing::TestWithParam<int> {};

INSTANTIATE_TEST_SUITE_P(Ranks, StrangersAtGlooTest, ::testing::Values(2, 4));

TEST_P(StrangersAtGlooTest, RanksConnectAndSumAsIfNobodyHadCome) {
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo for ranks on CPUs";
  run_ranks({.ranks = GetParam()}, [](RankGroup& group) {
    Hammer hammer([] { return std::vector<pid_t>{::getpid()}; });
    for (int round = 0; round < 5; ++round) {
      // While one is late the ports of others are open, and found.
      if (group.rank() == round % group.world_size()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
      }
      const auto mesh = make_process_mesh(MeshKind::kSharded, group, torch::kCPU);
      const torch::Tensor sum = torch::full({1000}, static_cast<double>(group.rank() + 1));
      mesh->world().all_reduce_now(sum);
      const double expected = group.world_size() * (group.world_size() + 1) / 2;
      EXPECT_TRUE(torch::equal(sum, torch::full({1000}, expected)));
      mesh->world().barrier();
    }
    int strangers = 0;
    for (const std::string& count : group.all_gather(std::to_string(hammer.stop()))) {
      strangers += std::stoi(count);
    }
    EXPECT_GT(strangers, 20);
  });
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
