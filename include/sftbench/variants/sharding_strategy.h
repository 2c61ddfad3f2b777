// How ranks share parameters, gradients and optimizer state, and in which form they save them.
// Names are those of PyTorch's FSDP (torch.distributed.fsdp.ShardingStrategy, StateDictType). FSDP
// has no SHARD_OPTIM, which is stage 1 of ZeRO.
#pragma once

#include <array>

#include "sftbench/base/named.h"

namespace sftbench {

// Which ranks hold one copy of the model together.
enum class MeshKind {
  kReplicated,  // every rank holds everything
  kSharded,     // one copy over all ranks
  kHybrid,      // one copy in each node
};

enum class Strategy {
  kDdp,
  kFullShard,
  kHybridShard,
  kHybridShardZero2,
  kNoShard,
  kShardGradOp,
  kShardOptim
};

struct StrategyRow {
  Strategy kind;
  const char* name;
  MeshKind mesh;
  // A unit's parameters are gathered for the backward pass anew, having been freed after the
  // forward pass.
  bool reshard_after_forward = false;
  // Gradients are reduced by FSDP's units, not in DDP's buckets of equal size.
  bool reduces_by_unit = true;
  // The mesh divides the optimizer's state alone: each rank has all parameters and gradients.
  bool optimizer_alone = false;

  // Whether a rank holds a part of the parameters only.
  constexpr bool shards() const { return mesh != MeshKind::kReplicated && !optimizer_alone; }
  // Whether an optimizer is given parts of parameters.
  constexpr bool updates_parts() const { return shards() || optimizer_alone; }
};

inline constexpr std::array kStrategies = {
    StrategyRow{.kind = Strategy::kDdp,
                .name = "DDP",
                .mesh = MeshKind::kReplicated,
                .reduces_by_unit = false},
    StrategyRow{.kind = Strategy::kFullShard,
                .name = "FULL_SHARD",
                .mesh = MeshKind::kSharded,
                .reshard_after_forward = true},
    StrategyRow{.kind = Strategy::kHybridShard,
                .name = "HYBRID_SHARD",
                .mesh = MeshKind::kHybrid,
                .reshard_after_forward = true},
    StrategyRow{.kind = Strategy::kHybridShardZero2,
                .name = "HYBRID_SHARD_ZERO2",
                .mesh = MeshKind::kHybrid},
    StrategyRow{.kind = Strategy::kNoShard, .name = "NO_SHARD", .mesh = MeshKind::kReplicated},
    StrategyRow{
        .kind = Strategy::kShardGradOp, .name = "SHARD_GRAD_OP", .mesh = MeshKind::kSharded},
    StrategyRow{.kind = Strategy::kShardOptim,
                .name = "SHARD_OPTIM",
                .mesh = MeshKind::kSharded,
                .reduces_by_unit = false,
                .optimizer_alone = true},
};
static_assert(is_in_order(kStrategies));

constexpr const auto& rows_of(Strategy) {
  return kStrategies;
}
constexpr const char* noun_of(Strategy) {
  return "strategy";
}

// Form of checkpoints.
enum class StateDictType { kFull, kLocal, kSharded };

struct StateDictTypeRow {
  StateDictType kind;
  const char* name;
  const char* format;  // as a checkpoint says it
};

inline constexpr std::array kStateDictTypes = {
    StateDictTypeRow{StateDictType::kFull, "FULL_STATE_DICT", "FULL"},
    StateDictTypeRow{StateDictType::kLocal, "LOCAL_STATE_DICT", "LOCAL"},
    StateDictTypeRow{StateDictType::kSharded, "SHARDED_STATE_DICT", "SHARDED"},
};
static_assert(is_in_order(kStateDictTypes));

constexpr const auto& rows_of(StateDictType) {
  return kStateDictTypes;
}
constexpr const char* noun_of(StateDictType) {
  return "state_dict_type";
}

// When gradients of several micro-batches are reduced: the last adds them up first, as Trainer
// does. Under FSDP no rank holds whole gradients if those of each micro-batch are reduced.
enum class GradientSync { kEach, kLast };

struct GradientSyncRow {
  GradientSync kind;
  const char* name;
};

inline constexpr std::array kGradientSyncs = {GradientSyncRow{GradientSync::kEach, "each"},
                                              GradientSyncRow{GradientSync::kLast, "last"}};
static_assert(is_in_order(kGradientSyncs));

constexpr const auto& rows_of(GradientSync) {
  return kGradientSyncs;
}
constexpr const char* noun_of(GradientSync) {
  return "gradient_sync";
}

}  // namespace sftbench
