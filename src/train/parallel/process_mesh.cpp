#include "sftbench/parallel/process_mesh.h"

#include <algorithm>
#include <atomic>

#include "parallel/gloo_communicator.h"
#include "parallel/nccl_communicators.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"

namespace sftbench {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw RunError(ReasonCode::kUnsupported, message);
}

// Every node has the same number of ranks, and rank r is on the (r / that)-th node.
MeshShape hybrid_shape(const std::vector<RankInfo>& ranks) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i == 0 || ranks[i].node != ranks[i - 1].node) sizes.push_back(0);
    const bool seen = std::any_of(ranks.begin(), ranks.begin() + static_cast<int64_t>(i),
                                  [&](const RankInfo& r) { return r.node == ranks[i].node; });
    if (sizes.back() == 0 && seen) {
      refuse("a hybrid strategy needs ranks that are numbered node by node, but rank " +
             std::to_string(i) + " is on node " + std::to_string(ranks[i].node) +
             " again, after ranks of another node; start them in blocks (Slurm: "
             "--distribution=block, Open MPI: --map-by slot)");
    }
    ++sizes.back();
  }
  const auto [fewest, most] = std::minmax_element(sizes.begin(), sizes.end());
  if (*fewest != *most) {
    refuse("a hybrid strategy needs as many ranks on each node, but one node has " +
           counted(*fewest, "rank") + " and another " + std::to_string(*most) +
           "; start as many on each, or use FULL_SHARD");
  }
  if (*most == 1) {
    refuse(
        "a hybrid strategy shards inside a node, but there each node has 1 rank: nothing would " +
        std::string("be sharded; use NO_SHARD (or DDP) for that, or FULL_SHARD over all nodes"));
  }
  return {static_cast<int64_t>(sizes.size()), *most};
}

std::vector<int> members_of(int64_t first, int64_t step, int64_t count) {
  std::vector<int> members;
  for (int64_t i = 0; i < count; ++i) members.push_back(static_cast<int>(first + i * step));
  return members;
}

// Meshes that a process makes one after another must not meet in the group's key-value store. All
// ranks make the same ones in the same order, so that they agree on the number.
std::string next_scope() {
  static std::atomic<int64_t> made{0};
  return "mesh" + std::to_string(made++);
}

MeshShape shape_of_copies(MeshKind kind, const std::vector<RankInfo>& ranks) {
  const auto world = static_cast<int64_t>(ranks.size());
  if (world == 1) return {.replicas = 1, .shards = 1};
  if (kind == MeshKind::kReplicated) return {.replicas = world, .shards = 1};
  if (kind == MeshKind::kSharded) return {.replicas = 1, .shards = world};
  return hybrid_shape(ranks);
}

void require_division(const std::string& what, int64_t among, int64_t world, int64_t shards) {
  if (world % among != 0) {
    refuse(what + " cannot be divided evenly among groups of " + std::to_string(among) + " of " +
           counted(world, "rank"));
  }
  if (shards % among != 0 && among % shards != 0) {
    refuse(what + " divided among " + counted(among, "rank") +
           " do not fit a hybrid strategy whose nodes have " + counted(shards, "rank") +
           " each: one has to be a multiple of the other; FULL_SHARD works");
  }
}

}  // namespace

MeshShape mesh_shape(MeshKind kind, const std::vector<RankInfo>& ranks,
                     const MeshDivisions& divisions) {
  const auto world = static_cast<int64_t>(ranks.size());
  check(world > 0 && divisions.experts > 0 && divisions.context > 0, "a job has ranks");
  MeshShape shape = shape_of_copies(kind, ranks);
  shape.experts = divisions.experts;
  shape.context = divisions.context;
  require_division("experts", shape.experts, world, shape.shards);
  require_division("the positions of a row", shape.context, world, shape.shards);
  return shape;
}

ProcessMesh::ProcessMesh(const MeshShape& shape, int rank, const MakeCommunicator& make)
    : shape_(shape) {
  const int64_t world = shape.replicas * shape.shards;
  check(rank >= 0 && rank < world, "the rank is one of the mesh");
  const auto add = [&](const char* name, const std::vector<int>& members) {
    owned_.emplace_back(name, make(name, members));
    return owned_.back().second.get();
  };
  const int64_t node_first = rank / shape.shards * shape.shards;
  world_ = add("world", members_of(0, 1, world));
  shards_ = shape.shards == world ? world_ : add("shards", members_of(node_first, 1, shape.shards));
  if (shape.replicas == world) {
    replicas_ = world_;
  } else {
    replicas_ = add("replicas", members_of(rank % shape.shards, shape.shards, shape.replicas));
  }
  // Communicators of their own: rows do not wait for the parameters that are gathered meanwhile.
  if (shape.context > 1) {
    context_ = add("context", members_of(rank - rank % shape.context, 1, shape.context));
  }
  if (shape.experts == 1) return;
  const int64_t place = rank % shape.experts;
  experts_ = add("experts", members_of(rank - place, 1, shape.experts));
  expert_replicas_ =
      add("expert_replicas", members_of(place, shape.experts, world / shape.experts));
}

void ProcessMesh::abort(const std::string& why) {
  for (const auto& [name, communicator] : owned_) communicator->abort(why);
}

void ProcessMesh::on_end(
    const std::function<void(const std::string& group, const CollectiveSpan&)>& listener) {
  for (const auto& [name, communicator] : owned_) {
    communicator->on_end(
        [listener, group = name](const CollectiveSpan& span) { listener(group, span); });
  }
}

double ProcessMesh::take_wait_seconds() {
  double seconds = 0;
  for (const auto& [name, communicator] : owned_) seconds += communicator->take_wait_seconds();
  return seconds;
}

std::vector<std::pair<std::string, CommunicationCounters>> ProcessMesh::counters() const {
  std::vector<std::pair<std::string, CommunicationCounters>> counters;
  for (const auto& [name, communicator] : owned_) {
    counters.emplace_back(name, communicator->counters());
  }
  return counters;
}

std::unique_ptr<ProcessMesh> make_process_mesh(MeshKind kind, RankGroup& group,
                                               torch::Device device,
                                               const MeshDivisions& divisions) {
  const MeshShape shape = mesh_shape(kind, group.ranks(), divisions);
  const std::string scope = next_scope();
  const ProcessMesh::MakeCommunicator make =
      device.is_cpu() ? gloo_communicators(group, scope) : nccl_communicators(group, scope, device);
  return std::make_unique<ProcessMesh>(
      shape, group.rank(), [&](const std::string& name, const std::vector<int>& members) {
        const bool alone_in_a_larger_world = members.size() == 1 && group.world_size() > 1;
        return alone_in_a_larger_world ? make_local_communicator() : make(name, members);
      });
}

std::unique_ptr<ProcessMesh> make_local_mesh() {
  return std::make_unique<ProcessMesh>(
      MeshShape{}, 0,
      [](const std::string&, const std::vector<int>&) { return make_local_communicator(); });
}

}  // namespace sftbench
