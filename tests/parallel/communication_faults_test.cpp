// What ends communication: a rank that dies, one that stalls, one that does something else, and an
// abort. Each time every rank learns it in time, with an error that names what was under way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "parallel/rank_processes.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/torch.h"
#include "sftbench/parallel/process_mesh.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::AllOf;
using ::testing::HasSubstr;

// The error that ends `run`; its message is empty when none does.
RunError error_from(const std::function<void()>& run) {
  try {
    run();
  } catch (const RunError& error) {
    return error;
  }
  return RunError(ReasonCode::kInternal, "");
}

void exchange_until_error(Communicator& world) {
  const torch::Tensor whole = torch::zeros({world.world_size(), 4 << 20}).to(rank_device());
  for (;;) world.all_gather(whole, whole[world.rank()]).wait();
}

TEST(CommunicationFaults, ADeadRankIsNamedByTheOthersLongBeforeTheDeadline) {
  run_ranks({.ranks = 3, .may_die = {1}}, [](RankGroup& group) {
    const auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
    std::thread killer;
    if (group.rank() == 1) {
      killer = std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(200));
        ::raise(SIGKILL);
      });
    }
    const double begin_s = steady_seconds();
    const RunError error = error_from([&] { exchange_until_error(mesh->world()); });
    EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 1"), HasSubstr("signal 9")));
    EXPECT_EQ(error.code(), ReasonCode::kKilled);
    EXPECT_LT(steady_seconds() - begin_s, 10);  // the deadline is 60 s
    // And so is everything that is started from now on.
    EXPECT_THAT(error_from([&] { mesh->world().barrier(); }).what(), HasSubstr("rank 1"));
    if (killer.joinable()) killer.join();
  });
}

TEST(CommunicationFaults, ARankThatLeavesWithoutAWordIsALostConnection) {
  if (!has_gloo()) GTEST_SKIP() << "NCCL sees no lost connection";
  run_ranks({.ranks = 2}, [](RankGroup& group) {
    auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
    group.all_gather("connected");
    if (group.rank() == 1) {
      mesh.reset();
      group.get("rank 0 has seen it");
      return;
    }
    const RunError error = error_from([&] { exchange_until_error(mesh->world()); });
    EXPECT_EQ(error.code(), ReasonCode::kNccl);
    EXPECT_THAT(error.what(), HasSubstr("all_gather #1 of group world (2 ranks, 33554432 bytes) "
                                        "failed on rank 0: another rank has ended or its "
                                        "connection was lost"));
    // Closed, or reset where bytes on their way were not read.
    EXPECT_THAT(error.evidence(), HasSubstr("by peer"));
    group.set("rank 0 has seen it", "yes");
  });
}

TEST(CommunicationFaults, AStalledRankRunsIntoTheDeadline) {
  if (!has_gloo()) GTEST_SKIP() << "over NCCL wait() does not hold the host";
  run_ranks({.ranks = 3, .communication_timeout_s = 2}, [](RankGroup& group) {
    const auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
    mesh->world().barrier();
    if (group.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(6500));
      return;
    }
    const torch::Tensor whole = torch::zeros({3, 5000}).to(rank_device());
    const torch::Tensor part = torch::zeros({5000}).to(rank_device());
    const double begin_s = steady_seconds();
    PendingCollective first = mesh->world().reduce_scatter(part, whole);
    PendingCollective second = mesh->world().all_gather(whole, part);
    const RunError error = error_from([&] { first.wait(); });
    const double waited_s = steady_seconds() - begin_s;
    EXPECT_EQ(error.code(), ReasonCode::kNccl);
    // Which of the two is first ends the other's connection.
    EXPECT_THAT(error.what(), HasSubstr("reduce_scatter #2 of group world (3 ranks, 60000 bytes)"));
    EXPECT_GT(waited_s, 1.9);
    EXPECT_LT(waited_s, 6);
    EXPECT_STREQ(error_from([&] { second.wait(); }).what(), error.what());
  });
}

TEST(CommunicationFaults, RanksThatDoDifferentThingsNeverExchangeWrongNumbers) {
  if (!has_gloo()) GTEST_SKIP() << "NCCL checks no sizes";
  run_ranks({.ranks = 2, .communication_timeout_s = 3}, [](RankGroup& group) {
    const auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
    // Of other sizes: what one rank sends would not fit what the other expects.
    const torch::Tensor tensor = torch::zeros({group.rank() == 0 ? 4096 : 8192}).to(rank_device());
    const RunError error = error_from([&] { mesh->world().all_reduce_now(tensor); });
    EXPECT_EQ(error.code(), ReasonCode::kNccl);
    EXPECT_THAT(error.what(), HasSubstr("all_reduce #1 of group world"));
  });
}

TEST(CommunicationFaults, TheDeadlineIsNamedByARankThatIsAlone) {
  if (!has_gloo()) GTEST_SKIP() << "over NCCL wait() does not hold the host";
  run_ranks({.ranks = 2, .communication_timeout_s = 2}, [](RankGroup& group) {
    const auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
    if (group.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5000));
      return;
    }
    const torch::Tensor tensor = torch::zeros({4096}).to(rank_device());
    const RunError error = error_from([&] { mesh->world().all_reduce_now(tensor); });
    EXPECT_STREQ(error.what(),
                 "all_reduce #1 of group world (2 ranks, 16384 bytes) was not done within 2 s "
                 "on rank 0: another rank is stuck, cannot be reached or has started something "
                 "else");
  });
}

TEST(CommunicationFaults, AnAbortFromAnotherThreadWakesWhoWaitsAtOnce) {
  run_ranks({.ranks = 2}, [](RankGroup& group) {
    const auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
    if (group.rank() == 1) {
      group.get("rank 0 has seen it");
      return;
    }
    const double begin_s = steady_seconds();
    std::thread aborter([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      mesh->abort("the test says so");
    });
    const RunError error = error_from([&] { exchange_until_error(mesh->world()); });
    aborter.join();
    EXPECT_STREQ(error.what(), "communication in group world was ended: the test says so");
    EXPECT_LT(steady_seconds() - begin_s, 5);  // the deadline is 60 s
    EXPECT_STREQ(error_from([&] { mesh->world().barrier(); }).what(), error.what());
    group.set("rank 0 has seen it", "yes");
  });
}

TEST(CommunicationFaults, AnAbortBeforeItsTurnEndsAnOperationToo) {
  run_ranks({.ranks = 2}, [](RankGroup& group) {
    const auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
    if (group.rank() == 1) {
      group.get("rank 0 has seen it");
      return;
    }
    const torch::Tensor tensor = torch::zeros({1 << 20}).to(rank_device());
    PendingCollective first = mesh->world().all_reduce(tensor, Reduction::kSum);
    PendingCollective second = mesh->world().all_reduce(tensor, Reduction::kSum);
    mesh->abort("no time");
    EXPECT_THAT(error_from([&] { second.wait(); }).what(), HasSubstr("no time"));
    EXPECT_THAT(error_from([&] { first.wait(); }).what(), HasSubstr("no time"));
    group.set("rank 0 has seen it", "yes");
  });
}

TEST(CommunicationFaults, ARankThatNeverConnectsIsMissed) {
  run_ranks({.ranks = 2, .communication_timeout_s = 0.5}, [](RankGroup& group) {
    if (group.rank() == 1) return;
    const RunError error =
        error_from([&] { make_process_mesh(MeshKind::kSharded, group, rank_device()); });
    EXPECT_EQ(error.code(), ReasonCode::kNccl);
  });
}

TEST(GlooAddress, AnUnknownInterfaceIsRefusedWithThoseThatExist) {
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  run_ranks({.ranks = 2}, [](RankGroup& group) {
    ::setenv("GLOO_SOCKET_IFNAME", "nowhere0", 1);
    const RunError error =
        error_from([&] { make_process_mesh(MeshKind::kSharded, group, rank_device()); });
    EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("GLOO_SOCKET_IFNAME is 'nowhere0', but this machine has no such "
                                "network interface with an address; it has "),
                      HasSubstr("lo")));
  });
}

TEST(GlooAddress, ANamedInterfaceIsUsed) {
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo";
  run_ranks({.ranks = 2}, [](RankGroup& group) {
    ::setenv("GLOO_SOCKET_IFNAME", "lo", 1);
    const auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
    const torch::Tensor tensor = torch::ones({10}).to(rank_device());
    mesh->world().all_reduce_now(tensor);
    EXPECT_EQ(tensor.sum().item<float>(), 20);
  });
}

TEST(GlooAddress, ALoopbackAddressIsNotGivenToOtherHosts) {
  if (!has_gloo()) GTEST_SKIP() << "this build has no Gloo for ranks on CPUs";
  RankPlace place;
  place.world_size = 2;
  place.nodes = 2;
  FileRankGroup group("/nonexistent", place,
                      {{.rank = 0, .host = "a"}, {.rank = 1, .node = 1, .host = "b"}});
  const RunError error =
      error_from([&] { make_process_mesh(MeshKind::kSharded, group, torch::kCPU); });
  EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
  EXPECT_THAT(error.what(),
              HasSubstr("rank 0 is at 127.0.0.1, which is 127.0.0.1 from here; set "
                        "GLOO_SOCKET_IFNAME to the network interface that connects the hosts"));
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
