// Every collective operation over Gloo, between processes, against sums that the test computes. All
// ranks can compute all ranks' inputs, so that nothing but the operation itself crosses.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "parallel/rank_processes.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/torch.h"
#include "sftbench/parallel/process_mesh.h"

namespace sftbench {
namespace SFTBENCH_FILE {

constexpr int64_t kLarge = 550001;  // float32 parts of three chunks, the last one short
const std::vector<torch::ScalarType> kDtypes = {torch::kFloat32, torch::kBFloat16, torch::kFloat16,
                                                torch::kFloat64, torch::kInt64,    torch::kUInt8};

// [n] of a rank. Floating-point values are multiples of 1/64 below 4, which every dtype holds and
// whose sums over five ranks are exact in float32, but not in bfloat16 or float16.
torch::Tensor values(int64_t rank, int64_t n, torch::ScalarType dtype) {
  const torch::Tensor index = torch::arange(n, torch::dtype(torch::kInt64).device(rank_device()));
  const torch::Tensor mixed = (index * 7919 * (rank + 1) + rank * 104729).remainder_(509);
  if (dtype == torch::kUInt8) return mixed.to(dtype);
  // Above what a double holds.
  if (dtype == torch::kInt64) return mixed + (rank + 1) * (int64_t{1} << 58);
  return (mixed.to(torch::kFloat64) - 254).div_(64).to(dtype);
}

// Of the ranks' values, exactly: in float64, or in integers.
torch::Tensor exact_sum(int64_t ranks, int64_t n, torch::ScalarType dtype) {
  const bool whole = c10::isIntegralType(dtype, false);
  torch::Tensor sum = torch::zeros({n}, whole ? torch::kInt64 : torch::kFloat64).to(rank_device());
  for (int64_t r = 0; r < ranks; ++r) sum += values(r, n, dtype).to(sum.scalar_type());
  return sum;
}

std::string named(const char* what, torch::ScalarType dtype, int64_t n) {
  return std::string(what) + " of " + std::to_string(n) + " " + c10::toString(dtype);
}

void for_each_case(const Communicator& world,
                   const std::function<void(torch::ScalarType, int64_t)>& run) {
  for (const torch::ScalarType dtype : kDtypes) {
    for (const int64_t n : {0, 1, 7, 1009}) run(dtype, n);
  }
  if (world.world_size() > 3) return;
  run(torch::kFloat32, kLarge);
  run(torch::kBFloat16, kLarge);
}

void on_ranks(const std::function<void(Communicator&)>& function) {
  for (const int ranks : {1, 2, 3, 5}) {
    run_ranks({.ranks = ranks}, [&](RankGroup& group) {
      const auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
      function(mesh->world());
    });
  }
}

TEST(AllReduce, IsTheExactSumRoundedOnce) {
  on_ranks([](Communicator& world) {
    for_each_case(world, [&](torch::ScalarType dtype, int64_t n) {
      const torch::Tensor tensor = values(world.rank(), n, dtype);
      world.all_reduce(tensor, Reduction::kSum).wait();
      EXPECT_TRUE(torch::equal(tensor, exact_sum(world.world_size(), n, dtype).to(dtype)))
          << named("sum", dtype, n);
    });
  });
}

TEST(AllReduce, MaximumIsTheLargest) {
  on_ranks([](Communicator& world) {
    for_each_case(world, [&](torch::ScalarType dtype, int64_t n) {
      torch::Tensor expected = values(0, n, dtype);
      for (int64_t r = 1; r < world.world_size(); ++r) {
        expected = torch::maximum(expected, values(r, n, dtype));
      }
      const torch::Tensor tensor = values(world.rank(), n, dtype);
      world.all_reduce_now(tensor, Reduction::kMax);
      EXPECT_TRUE(torch::equal(tensor, expected)) << named("maximum", dtype, n);
    });
  });
}

TEST(AllReduce, NotANumberOfAnyRankIsTheMaximum) {
  if (test_device().is_cuda()) GTEST_SKIP() << "NCCL's maximum may lose it";
  run_ranks({.ranks = 3}, [](RankGroup& group) {
    const auto mesh = make_process_mesh(MeshKind::kReplicated, group, rank_device());
    for (int nan_rank = 0; nan_rank < 3; ++nan_rank) {
      const torch::Tensor tensor = torch::full({2}, double(group.rank())).to(rank_device());
      if (group.rank() == nan_rank) tensor[1] = std::nan("");
      mesh->world().all_reduce_now(tensor, Reduction::kMax);
      EXPECT_EQ(tensor[0].item<float>(), 2);
      EXPECT_TRUE(std::isnan(tensor[1].item<float>())) << "from rank " << nan_rank;
    }
  });
}

// Sums that float32 cannot hold depend on the order of terms, which must be the same everywhere.
TEST(AllReduce, GivesAllRanksTheSameBitsAndAddsInRankOrder) {
  run_ranks({.ranks = 5}, [](RankGroup& group) {
    const auto mesh = make_process_mesh(MeshKind::kReplicated, group, rank_device());
    for (const int64_t n : {int64_t{11}, kLarge}) {
      const auto of = [n](int64_t rank) {
        const torch::Tensor index = torch::arange(n, torch::kFloat32).to(rank_device());
        return torch::sin(index * 0.37 + double(rank));
      };
      torch::Tensor expected = of(0);
      for (int64_t r = 1; r < 5; ++r) expected = expected + of(r);
      const torch::Tensor tensor = of(group.rank());
      mesh->world().all_reduce_now(tensor);
      EXPECT_TRUE(torch::equal(tensor, expected)) << n;
    }
  });
}

TEST(AllGather, PutsTheRanksPartsInRankOrder) {
  on_ranks([](Communicator& world) {
    for_each_case(world, [&](torch::ScalarType dtype, int64_t n) {
      std::vector<torch::Tensor> parts;
      for (int64_t r = 0; r < world.world_size(); ++r) parts.push_back(values(r, n, dtype));
      const torch::Tensor expected = torch::stack(parts);
      const torch::Tensor apart = torch::zeros_like(expected);
      world.all_gather(apart, parts[world.rank()]).wait();
      EXPECT_TRUE(torch::equal(apart, expected)) << named("gather", dtype, n);

      const torch::Tensor in_place = torch::zeros_like(expected);
      in_place[world.rank()].copy_(parts[world.rank()]);
      world.all_gather(in_place, in_place[world.rank()]).wait();
      EXPECT_TRUE(torch::equal(in_place, expected)) << named("gather in place", dtype, n);
    });
  });
}

TEST(ReduceScatter, GivesEachRankItsPartOfTheSum) {
  on_ranks([](Communicator& world) {
    const int64_t ranks = world.world_size();
    for_each_case(world, [&](torch::ScalarType dtype, int64_t n) {
      const auto input = [&] { return values(world.rank(), ranks * n, dtype).view({ranks, n}); };
      const torch::Tensor sum = exact_sum(ranks, ranks * n, dtype).view({ranks, n})[world.rank()];

      const torch::Tensor apart = torch::zeros({n}, dtype).to(rank_device());
      world.reduce_scatter(apart, input()).wait();
      EXPECT_TRUE(torch::equal(apart, sum.to(dtype))) << named("scatter", dtype, n);

      const torch::Tensor whole = input();
      world.reduce_scatter(whole[world.rank()], whole).wait();
      EXPECT_TRUE(torch::equal(whole[world.rank()], sum.to(dtype)))
          << named("scatter in place", dtype, n);

      const torch::Tensor in_float = torch::zeros({n}, torch::kFloat32).to(rank_device());
      world.reduce_scatter(in_float, input()).wait();
      EXPECT_TRUE(torch::equal(in_float, sum.to(torch::kFloat32)))
          << named("scatter into float32", dtype, n);
    });
  });
}

// What the exact sums above would not show if bfloat16's own rounding were too kind to them.
TEST(ReduceScatter, OfBfloat16DiffersFromAddingInBfloat16) {
  torch::Tensor added = values(0, kLarge, torch::kBFloat16);
  for (int64_t r = 1; r < 5; ++r) added = added + values(r, kLarge, torch::kBFloat16);
  const torch::Tensor rounded_once = exact_sum(5, kLarge, torch::kBFloat16).to(torch::kBFloat16);
  EXPECT_GT((added != rounded_once).sum().item<int64_t>(), kLarge / 100);
}

TEST(Broadcast, GivesEverybodyTheRootsTensor) {
  on_ranks([](Communicator& world) {
    for (int64_t root = 0; root < world.world_size(); ++root) {
      for_each_case(world, [&](torch::ScalarType dtype, int64_t n) {
        const torch::Tensor tensor = values(world.rank(), n, dtype);
        world.broadcast(tensor, root).wait();
        EXPECT_TRUE(torch::equal(tensor, values(root, n, dtype))) << named("broadcast", dtype, n);
      });
    }
  });
}

TEST(AllToAll, TransposesPartsAndRanks) {
  on_ranks([](Communicator& world) {
    const int64_t ranks = world.world_size();
    for_each_case(world, [&](torch::ScalarType dtype, int64_t n) {
      const torch::Tensor input = values(world.rank(), ranks * n, dtype).view({ranks, n});
      std::vector<torch::Tensor> parts;
      for (int64_t r = 0; r < ranks; ++r) {
        parts.push_back(values(r, ranks * n, dtype).view({ranks, n})[world.rank()]);
      }
      const torch::Tensor output = torch::zeros_like(input);
      world.all_to_all(output, input).wait();
      EXPECT_TRUE(torch::equal(output, torch::stack(parts))) << named("all-to-all", dtype, n);
    });
  });
}

// Rank r gives rank s r + 2 s rows, so that some parts are empty, and tells apart whose they are.
TEST(AllToAll, TakesPartsOfAnySize) {
  on_ranks([](Communicator& world) {
    const int64_t ranks = world.world_size(), rank = world.rank();
    const auto rows = [](int64_t from, int64_t to) { return (from + 2 * to) % 4; };
    std::vector<int64_t> sent, received;
    std::vector<torch::Tensor> expected;
    for (int64_t r = 0; r < ranks; ++r) {
      sent.push_back(3 * rows(rank, r));
      received.push_back(3 * rows(r, rank));
      expected.push_back(torch::full({rows(r, rank), 3}, double(10 * r + rank)).to(rank_device()));
    }
    std::vector<torch::Tensor> parts;
    for (int64_t r = 0; r < ranks; ++r) {
      parts.push_back(torch::full({rows(rank, r), 3}, double(10 * rank + r)).to(rank_device()));
    }
    const auto own = static_cast<size_t>(rank);
    const int64_t before = world.counters()[size_t(Collective::kAllToAll)].sent_bytes;
    const torch::Tensor output = torch::zeros_like(torch::cat(expected));
    world.all_to_all(output, torch::cat(parts), received, sent).wait();
    EXPECT_TRUE(torch::equal(output, torch::cat(expected)));
    const int64_t all = std::accumulate(sent.begin(), sent.end(), int64_t{0});
    EXPECT_EQ(world.counters()[size_t(Collective::kAllToAll)].sent_bytes - before,
              4 * (all - sent[own]));
  });
}

TEST(GlooOrder, OperationsRunOneAfterTheOtherWithoutBeingWaitedFor) {
  run_ranks({.ranks = 3}, [](RankGroup& group) {
    const auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
    Communicator& world = mesh->world();
    const torch::Tensor part = torch::full({kLarge}, double(group.rank() + 1)).to(rank_device());
    const torch::Tensor whole = torch::zeros({3, kLarge}).to(rank_device());
    const torch::Tensor sum = torch::zeros({kLarge}).to(rank_device());
    PendingCollective gather = world.all_gather(whole, part);
    PendingCollective scatter = world.reduce_scatter(sum, whole);  // of what is being gathered
    PendingCollective reduce = world.all_reduce(sum, Reduction::kSum);
    reduce.wait();
    // Each rank has thrice its own part, and the sum of those is 3 (1 + 2 + 3).
    EXPECT_TRUE(torch::equal(sum, torch::full({kLarge}, 18.0).to(rank_device())));
    scatter.wait();
    gather.wait();
    EXPECT_FALSE(gather.pending());
  });
}

TEST(GlooOrder, GroupsDoNotHoldEachOtherUp) {
  run_ranks({.ranks = 4, .nodes = 2}, [](RankGroup& group) {
    const auto mesh = make_process_mesh(MeshKind::kHybrid, group, rank_device());
    const torch::Tensor in_node = torch::full({1000}, double(group.rank())).to(rank_device());
    const torch::Tensor across = torch::full({1000}, double(group.rank())).to(rank_device());
    const torch::Tensor everywhere = torch::full({1000}, double(group.rank())).to(rank_device());
    // Ranks 0 and 1 start with one group and end with the other; ranks 2 and 3 as well, but what
    // crosses comes late: the node's own sum does not wait for it.
    PendingCollective first = mesh->shards().all_reduce(in_node, Reduction::kSum);
    if (group.place().node == 1) {
      first.wait();
      group.set("first of " + std::to_string(group.rank()), "done");
    }
    PendingCollective second = mesh->replicas().all_reduce(across, Reduction::kSum);
    PendingCollective third = mesh->world().all_reduce(everywhere, Reduction::kSum);
    third.wait();
    second.wait();
    first.wait();
    EXPECT_EQ(in_node[0].item<float>(), group.place().node == 0 ? 1 : 5);
    EXPECT_EQ(across[999].item<float>(), group.rank() % 2 == 0 ? 2 : 4);
    EXPECT_EQ(everywhere[500].item<float>(), 6);
  });
}

TEST(GlooOrder, StartingDoesNotWaitForOtherRanks) {
  run_ranks({.ranks = 2}, [](RankGroup& group) {
    const auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
    const torch::Tensor tensor = torch::ones({1 << 20}).to(rank_device());
    group.all_gather("ready");
    if (group.rank() == 1) group.get("rank 0 has started");
    PendingCollective pending = mesh->world().all_reduce(tensor, Reduction::kSum);
    if (group.rank() == 0) group.set("rank 0 has started", "yes");
    pending.wait();
    EXPECT_EQ(tensor.sum().item<float>(), 2 << 20);
  });
}

TEST(GlooOrder, ADroppedOperationIsWaitedFor) {
  run_ranks({.ranks = 2}, [](RankGroup& group) {
    const auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
    const torch::Tensor tensor = torch::ones({kLarge}).to(rank_device());
    { const PendingCollective dropped = mesh->world().all_reduce(tensor, Reduction::kSum); }
    EXPECT_TRUE(torch::equal(tensor, torch::full({kLarge}, 2.0).to(rank_device())));
  });
}

TEST(GlooOrder, ABarrierComesAfterEverybody) {
  run_ranks({.ranks = 3}, [](RankGroup& group) {
    const auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
    group.all_gather("ready");
    std::this_thread::sleep_for(std::chrono::milliseconds(50 * group.rank()));
    const std::string arrived = std::to_string(steady_seconds());
    mesh->world().barrier();
    const double passed_s = steady_seconds();
    for (const std::string& other : group.all_gather(arrived)) {
      EXPECT_LE(std::stod(other), passed_s + 1e-6);  // to_string rounds to microseconds
    }
  });
}

CollectiveCounters counter(const Communicator& communicator, Collective collective) {
  return communicator.counters()[static_cast<size_t>(collective)];
}

TEST(GlooCounters, CountWhatTheHeaderSays) {
  if (!has_gloo()) GTEST_SKIP() << "NCCL's algorithms are counted in nccl_communicator_test";
  for (const int ranks : {2, 3, 5}) {
    run_ranks({.ranks = ranks}, [](RankGroup& group) {
      const auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
      Communicator& world = mesh->world();
      const int64_t n = world.world_size();
      const torch::Tensor part = torch::zeros({kLarge}).to(rank_device());
      const torch::Tensor whole = torch::zeros({n, kLarge}).to(rank_device());
      const torch::Tensor other = torch::zeros({n, kLarge}).to(rank_device());
      world.all_gather(whole, part).wait();
      world.all_gather(whole, part).wait();
      world.reduce_scatter(part, whole).wait();
      world.all_to_all(other, whole).wait();
      world.all_reduce_now(part);
      world.broadcast(part, 1).wait();
      world.barrier();

      const int64_t part_bytes = kLarge * 4;
      const CollectiveCounters gather = counter(world, Collective::kAllGather);
      EXPECT_EQ(gather.calls, 2);
      EXPECT_EQ(gather.sent_bytes, 2 * part_bytes * (n - 1));
      EXPECT_GT(gather.seconds, 0);
      EXPECT_EQ(counter(world, Collective::kReduceScatter).sent_bytes, part_bytes * (n - 1));
      EXPECT_EQ(counter(world, Collective::kAllToAll).sent_bytes, part_bytes * (n - 1));
      // kLarge is a multiple of none of 2, 3 and 5.
      const int64_t padded = (kLarge / n + 1) * n * 4;
      EXPECT_EQ(counter(world, Collective::kAllReduce).sent_bytes, 2 * padded / n * (n - 1));
      const bool last_of_chain = world.rank() == 0;  // the root is rank 1
      EXPECT_EQ(counter(world, Collective::kBroadcast).sent_bytes, last_of_chain ? 0 : part_bytes);
      EXPECT_EQ(counter(world, Collective::kBarrier).calls, 1);
      EXPECT_EQ(counter(world, Collective::kBarrier).sent_bytes, 0);
    });
  }
}

TEST(GlooCounters, AnAllReduceOfOneLatencySendsTheWholeToEverybody) {
  if (!has_gloo()) GTEST_SKIP() << "NCCL's algorithms are counted in nccl_communicator_test";
  run_ranks({.ranks = 3}, [](RankGroup& group) {
    const auto mesh = make_process_mesh(MeshKind::kSharded, group, rank_device());
    mesh->world().all_reduce_now(torch::zeros({1}).to(rank_device()));
    mesh->world().all_reduce_now(torch::zeros({1024}).to(rank_device()));
    EXPECT_EQ(counter(mesh->world(), Collective::kAllReduce).sent_bytes, 2 * (4 + 4096));
    mesh->world().all_reduce_now(torch::zeros({1026}).to(rank_device()));
    EXPECT_EQ(counter(mesh->world(), Collective::kAllReduce).sent_bytes,
              2 * (4 + 4096) + 2 * 2 * 1026 * 4 / 3);
  });
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
