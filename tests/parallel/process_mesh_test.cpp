#include "sftbench/parallel/process_mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "parallel/fork_ranks.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The nodes of ranks 0, 1, ...
std::vector<RankInfo> ranks_on(const std::vector<int>& nodes) {
  std::vector<RankInfo> ranks;
  for (const int node : nodes) {
    RankInfo& rank = ranks.emplace_back();
    rank.rank = static_cast<int>(ranks.size()) - 1;
    rank.node = node;
  }
  return ranks;
}

std::string refusal_of(const std::vector<int>& nodes) {
  try {
    mesh_shape(MeshKind::kHybrid, ranks_on(nodes));
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
    return error.what();
  }
  return "no refusal";
}

TEST(MeshShape, FollowsFromKindAndNodes) {
  const auto shape = [](MeshKind kind, const std::vector<int>& nodes) {
    const MeshShape found = mesh_shape(kind, ranks_on(nodes));
    return std::pair(found.replicas, found.shards);
  };
  EXPECT_EQ(shape(MeshKind::kReplicated, {0, 0, 1, 1}), std::pair(int64_t{4}, int64_t{1}));
  EXPECT_EQ(shape(MeshKind::kSharded, {0, 0, 1, 1}), std::pair(int64_t{1}, int64_t{4}));
  EXPECT_EQ(shape(MeshKind::kHybrid, {0, 0, 0, 1, 1, 1}), std::pair(int64_t{2}, int64_t{3}));
  EXPECT_EQ(shape(MeshKind::kHybrid, {0, 0, 1, 1, 2, 2}), std::pair(int64_t{3}, int64_t{2}));
  // One node: sharded over all, with nothing to average across.
  EXPECT_EQ(shape(MeshKind::kHybrid, {0, 0, 0}), std::pair(int64_t{1}, int64_t{3}));
  // Numbers of nodes need not be in order, only together.
  EXPECT_EQ(shape(MeshKind::kHybrid, {1, 1, 0, 0}), std::pair(int64_t{2}, int64_t{2}));
  // Only a hybrid mesh cares.
  EXPECT_EQ(shape(MeshKind::kSharded, {0, 1, 0}), std::pair(int64_t{1}, int64_t{3}));
}

TEST(MeshShape, DividesRowsAmongNeighborsThatFitItsGroups) {
  const auto refusal = [](MeshKind kind, const std::vector<int>& nodes, int64_t context) {
    try {
      const MeshShape shape = mesh_shape(kind, ranks_on(nodes), {.context = context});
      EXPECT_EQ(shape.context, context);
      return std::string("no refusal");
    } catch (const RunError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(refusal(MeshKind::kSharded, {0, 0, 1, 1}, 4), "no refusal");
  EXPECT_EQ(refusal(MeshKind::kHybrid, {0, 0, 1, 1}, 4), "no refusal");
  EXPECT_EQ(refusal(MeshKind::kHybrid, {0, 0, 0, 0, 1, 1, 1, 1}, 2), "no refusal");
  EXPECT_THAT(refusal(MeshKind::kReplicated, {0, 0, 1, 1}, 3),
              HasSubstr("the positions of a row cannot be divided evenly among groups of 3"));
  EXPECT_THAT(refusal(MeshKind::kHybrid, {0, 0, 0, 1, 1, 1}, 2),
              HasSubstr("the positions of a row divided among 2 ranks do not fit a hybrid"));
}

TEST(MeshShape, RefusesAHybridMeshOverNodesOfDifferentSizes) {
  EXPECT_THAT(refusal_of({0, 0, 0, 1, 1}),
              HasSubstr("as many ranks on each node, but one node has 2 ranks and another 3"));
}

TEST(MeshShape, RefusesAHybridMeshOverRanksThatAreNotNumberedNodeByNode) {
  EXPECT_THAT(refusal_of({0, 1, 0, 1}),
              HasSubstr("numbered node by node, but rank 2 is on node 0 again"));
  EXPECT_THAT(refusal_of({0, 1, 0, 1}), HasSubstr("--distribution=block"));
}

TEST(MeshShape, RefusesAHybridMeshWhoseShardGroupsHaveOneRank) {
  EXPECT_THAT(refusal_of({0, 1, 2}), HasSubstr("each node has 1 rank: nothing would be sharded"));
}

TEST(MeshShape, AWorldOfOneIsWhateverItIsAskedToBe) {
  for (const MeshKind kind : {MeshKind::kReplicated, MeshKind::kSharded, MeshKind::kHybrid}) {
    const MeshShape found = mesh_shape(kind, ranks_on({0}));
    EXPECT_EQ(std::pair(found.replicas, found.shards), std::pair(int64_t{1}, int64_t{1}));
  }
}

struct MadeGroup {
  std::string name;
  std::vector<int> members;
  bool operator==(const MadeGroup&) const = default;
};

std::vector<MadeGroup> groups_of(const MeshShape& shape, int rank) {
  std::vector<MadeGroup> made;
  ProcessMesh mesh(shape, rank, [&](const std::string& name, const std::vector<int>& members) {
    made.push_back({name, members});
    return make_local_communicator();
  });
  // world() may be shards() or replicas(); what was made is all there is.
  EXPECT_EQ(mesh.counters().size(), made.size());
  return made;
}

TEST(ProcessMesh, HybridHasShardsInTheNodeAndReplicasAcross) {
  EXPECT_THAT(groups_of({.replicas = 2, .shards = 3}, 4),
              ElementsAre(MadeGroup{"world", {0, 1, 2, 3, 4, 5}}, MadeGroup{"shards", {3, 4, 5}},
                          MadeGroup{"replicas", {1, 4}}));
  EXPECT_THAT(groups_of({.replicas = 3, .shards = 2}, 3),
              ElementsAre(MadeGroup{"world", {0, 1, 2, 3, 4, 5}}, MadeGroup{"shards", {2, 3}},
                          MadeGroup{"replicas", {1, 3, 5}}));
}

TEST(ProcessMesh, RowsAndExpertsHaveGroupsOfTheirOwn) {
  EXPECT_THAT(groups_of({.replicas = 1, .shards = 4, .experts = 4, .context = 2}, 2),
              ElementsAre(MadeGroup{"world", {0, 1, 2, 3}}, MadeGroup{"replicas", {2}},
                          MadeGroup{"context", {2, 3}}, MadeGroup{"experts", {0, 1, 2, 3}},
                          MadeGroup{"expert_replicas", {2}}));
}

TEST(ProcessMesh, EqualGroupsAreOneObject) {
  EXPECT_THAT(groups_of({.replicas = 1, .shards = 3}, 2),
              ElementsAre(MadeGroup{"world", {0, 1, 2}}, MadeGroup{"replicas", {2}}));
  EXPECT_THAT(groups_of({.replicas = 3, .shards = 1}, 1),
              ElementsAre(MadeGroup{"world", {0, 1, 2}}, MadeGroup{"shards", {1}}));
  EXPECT_THAT(groups_of({}, 0), ElementsAre(MadeGroup{"world", {0}}));

  const auto make = [](const std::string&, const std::vector<int>&) {
    return make_local_communicator();
  };
  ProcessMesh sharded({.replicas = 1, .shards = 3}, 0, make);
  EXPECT_EQ(&sharded.world(), &sharded.shards());
  EXPECT_NE(&sharded.world(), &sharded.replicas());
  ProcessMesh replicated({.replicas = 3, .shards = 1}, 0, make);
  EXPECT_EQ(&replicated.world(), &replicated.replicas());
  ProcessMesh one({}, 0, make);
  EXPECT_EQ(&one.world(), &one.shards());
  EXPECT_EQ(&one.world(), &one.replicas());
}

TEST(ProcessMesh, ARankAloneNeedsNoLibraryForItsMesh) {
  const auto mesh = make_local_mesh();
  EXPECT_EQ(mesh->world().world_size(), 1);
  const torch::Tensor tensor = torch::ones({3});
  mesh->world().all_reduce_now(tensor);
  EXPECT_EQ(tensor.sum().item<float>(), 3);
  EXPECT_EQ(mesh->counters()[0].second[0].calls, 1);
  EXPECT_EQ(mesh->counters()[0].second[0].sent_bytes, 0);
}

TEST(ProcessMesh, GpusInABuildWithoutNcclAreRefusedWithWhatWouldHelp) {
#if SFTBENCH_CUDA
  GTEST_SKIP() << "this build has NCCL";
#endif
  RankPlace place;
  place.world_size = 2;
  FileRankGroup group("/nonexistent", place, ranks_on({0, 0}));
  try {
    make_process_mesh(MeshKind::kSharded, group, torch::Device(torch::kCUDA, 0));
    ADD_FAILURE() << "no refusal";
  } catch (const RunError& error) {
    EXPECT_EQ(error.code(), ReasonCode::kUnsupported);
    EXPECT_STREQ(error.what(),
                 "this build has no NCCL, so that GPUs cannot train together: build with "
                 "-DSFTBENCH_CUDA=ON and nccl.h (Debian: libnccl-dev)");
  }
}

TEST(LocalCommunicator, SumsNothingThatTheOthersCouldNot) {
  const auto local = make_local_communicator();
  const torch::Tensor truth = torch::ones({3}, torch::kBool);
  EXPECT_THROW(local->all_reduce_now(truth), RunError);
  EXPECT_NO_THROW(local->broadcast(truth, 0).wait());
}

TEST(LocalCommunicator, HoldsItsCallersToTheContract) {
  const auto local = make_local_communicator();
  const torch::Tensor three = torch::ones({3});
  EXPECT_THROW(local->all_gather(torch::ones({4}), three), std::logic_error);
  EXPECT_THROW(local->all_gather(torch::ones({3}, torch::kFloat64), three), std::logic_error);
  EXPECT_THROW(local->reduce_scatter(torch::ones({3}, torch::kBFloat16), three), std::logic_error);
  EXPECT_THROW(local->all_reduce_now(torch::ones({3, 3}).t().slice(0, 0, 2)), std::logic_error);
  EXPECT_THROW(local->broadcast(three, 1), std::logic_error);
}

TEST(ProcessMesh, AnAbortReachesEveryGroup) {
  const auto mesh = make_local_mesh();
  mesh->abort("enough");
  EXPECT_THROW(mesh->world().barrier(), RunError);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
