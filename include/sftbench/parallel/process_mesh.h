// The ranks of a job as replicas x shards: a shard group holds one copy of the parameters among its
// members, the replica groups (same part, other copy) average gradients. A hybrid mesh keeps shard
// groups inside a node, so that only the replicas' all-reduce, a fraction 1/N of the parameters,
// crosses the network. Source: torch.distributed.device_mesh as FSDP2's 2-D mesh.
//
// A second division of the same ranks is for the experts of a mixture: the ranks of an expert group
// have a part of the experts each, and exchange rows. Ranks of the same place in their groups hold
// the same experts and sum their gradients. Source: fms-acceleration's mesh of data and expert
// parallel ranks for ScatterMoE.
//
// A third one is for the positions of rows: the neighbors of a context group divide each row among
// them, and read the same entries. Parameters are spread over all ranks as without it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/parallel/communicator.h"
#include "sftbench/ranks/rank_group.h"
#include "sftbench/variants/sharding_strategy.h"

namespace sftbench {

struct MeshShape {
  int64_t replicas = 1;
  int64_t shards = 1;
  int64_t experts = 1;  // ranks that the experts are divided among
  int64_t context = 1;  // ranks that the positions of a row are divided among
};

// What the ranks of a job divide beside data and parameters, each among so many neighbors.
struct MeshDivisions {
  int64_t experts = 1;
  int64_t context = 1;
};

// RunError(kUnsupported): a hybrid mesh over nodes of different sizes, over ranks that are not
// numbered node by node, or whose shard groups would have one rank each (its gradients would never
// be averaged by FSDP; DDP is what is meant). A world of one has nobody to share with: any kind is
// 1 x 1. Divisions that do not divide the ranks, or neither divide nor are divided by the ranks of
// a shard group.
MeshShape mesh_shape(MeshKind kind, const std::vector<RankInfo>& ranks,
                     const MeshDivisions& divisions = {});

// The communicators of one rank. Groups that would be equal are one object: world() may be shards()
// or replicas().
class ProcessMesh {
 public:
  using MakeCommunicator = std::function<std::unique_ptr<Communicator>(
      const std::string& name, const std::vector<int>& members)>;

  // make(name, members) is called in the same order on every rank, for the groups that this rank is
  // a member of; members are ranks of the world in rising order.
  ProcessMesh(const MeshShape& shape, int rank, const MakeCommunicator& make);

  const MeshShape& shape() const { return shape_; }
  Communicator& world() { return *world_; }
  Communicator& shards() { return *shards_; }      // size shape().shards
  Communicator& replicas() { return *replicas_; }  // size shape().replicas
  // Where experts are divided: shape().experts neighbors, which have one part each, and those that
  // have the same part.
  Communicator& experts() { return *experts_; }
  Communicator& expert_replicas() { return *expert_replicas_; }
  // Where rows are divided: shape().context neighbors.
  Communicator& context() { return *context_; }

  void abort(const std::string& why);
  // As Communicator::on_end(), with the group's name.
  void on_end(const std::function<void(const std::string& group, const CollectiveSpan&)>& listener);
  // By group name: "world", "shards", "replicas", "experts", "expert_replicas", "context"; each
  // distinct communicator once.
  std::vector<std::pair<std::string, CommunicationCounters>> counters() const;
  double take_wait_seconds();  // as Communicator's, of all

 private:
  MeshShape shape_;
  std::vector<std::pair<std::string, std::unique_ptr<Communicator>>> owned_;
  Communicator* world_ = nullptr;
  Communicator* shards_ = nullptr;
  Communicator* replicas_ = nullptr;
  Communicator* experts_ = nullptr;
  Communicator* expert_replicas_ = nullptr;
  Communicator* context_ = nullptr;
};

// Gloo for ranks on CPUs, NCCL for ranks on GPUs (device is this rank's), for a world of one, too;
// local for a group of one in a larger world.
// RunError(kUnsupported) when the library cannot be loaded, with what would help.
std::unique_ptr<ProcessMesh> make_process_mesh(MeshKind kind, RankGroup& group,
                                               torch::Device device,
                                               const MeshDivisions& divisions = {});

// A world of one that shares nothing.
std::unique_ptr<ProcessMesh> make_local_mesh();

}  // namespace sftbench
