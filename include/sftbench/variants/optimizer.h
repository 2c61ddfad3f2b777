// Optimizers by the names of Hugging Face's `optim` argument: when they update, what they keep, and
// what has to be said of them. src/train/optim/ has their rules.
#pragma once

#include <array>
#include <cstdint>

#include "sftbench/base/named.h"

namespace sftbench {

enum class OptimizerKind {
  kAdafactor,
  kAdagrad,
  kAdalomo,
  kAdamw8bit,
  kAdamwAnyprecision,
  kAdamwApexFused,
  kAdamwBnb8bit,
  kAdamwHf,
  kAdamwTorch,
  kAdamwTorch4bit,
  kAdamwTorchFused,
  kAdamwTorchNpuFused,
  kAdamwTorchXla,
  kAdemamix,
  kAdemamix8bit,
  kGaloreAdafactor,
  kGaloreAdafactorLayerwise,
  kGaloreAdamw,
  kGaloreAdamw8bit,
  kGaloreAdamw8bitLayerwise,
  kGaloreAdamwLayerwise,
  kGrokadamw,
  kLion32bit,
  kLion8bit,
  kLomo,
  kPagedAdamw32bit,
  kPagedAdamw8bit,
  kPagedAdemamix32bit,
  kPagedAdemamix8bit,
  kPagedLion32bit,
  kPagedLion8bit,
  kRmsprop,
  kRmspropBnb,
  kRmspropBnb32bit,
  kRmspropBnb8bit,
  kScheduleFreeAdamw,
  kScheduleFreeSgd,
  kSgd,
};

// What an optimizer keeps of a trained tensor (variants/optimizer_state_size.h).
struct StateRule {
  // Values of one state each, element by element.
  int states = 0;
  bool float32 = false;  // whatever the parameter is; else in the parameter's dtype
  // 8 or 4: codes of that many bits and a float32 scale for 256 of them, for large tensors.
  int bits = 0;
  bool embeddings_stay_wide = false;
  bool whole_blocks_only = false;
  // Sums over rows and over columns of a matrix, in place of an element-wise state (Adafactor).
  bool factored = false;
  // Of the low-rank projection of a linear's gradient, with its basis (GaLore).
  bool projected = false;
  // On GPUs: states of large tensors, or all states, live in the host's memory.
  bool paged = false;
  bool on_host = false;
};

constexpr StateRule states_like_parameter(int count) {
  return {.states = count};
}
constexpr StateRule states_of_float32(int count) {
  return {.states = count, .float32 = true};
}
// bitsandbytes: embeddings and small tensors keep float32 states.
constexpr StateRule states_of_8_bits(int count) {
  return {.states = count, .float32 = true, .bits = 8, .embeddings_stay_wide = true};
}
constexpr StateRule paged(StateRule rule) {
  rule.paged = true;
  return rule;
}
constexpr StateRule on_host(StateRule rule) {
  rule.on_host = true;
  return rule;
}
// torchao: small tensors and those of broken blocks keep states in the parameter's dtype.
inline constexpr StateRule kFourBitState = {.states = 2, .bits = 4, .whole_blocks_only = true};
inline constexpr StateRule kFactoredState = {.factored = true};
inline constexpr StateRule kGaloreAdam = {.states = 2, .projected = true};
// galore-torch registers no exception for embeddings.
inline constexpr StateRule kGaloreEightBit = {
    .states = 2, .float32 = true, .bits = 8, .projected = true};
inline constexpr StateRule kGaloreFactored = {.factored = true, .projected = true};

enum class UpdateTime {
  kAfterBackward,
  kInBackward,         // each parameter as soon as its gradient is complete
  kInBackwardOfLayer,  // the same, of one micro-batch: no accumulation
};

// What becomes of the rule where a rank has a part of each tensor, as a vector.
enum class ShardEffect { kNone, kNotFactored, kNotProjected, kNumbersOwnParts };

struct OptimizerRow {
  OptimizerKind kind;
  const char* name;
  StateRule state = {};
  UpdateTime update = UpdateTime::kAfterBackward;
  ShardEffect on_shards = ShardEffect::kNone;
  // torch updates all tensors at once, with temporaries as large as they are (foreach).
  bool foreach = false;
  // Where transformers, or the package that it takes the optimizer from, would do something else.
  const char* note = "";
  // Why no device of this program runs it, and what works instead.
  const char* obstacle = "";

  constexpr bool updates_in_backward() const { return update != UpdateTime::kAfterBackward; }
  constexpr bool has_obstacle() const { return *obstacle != '\0'; }
  // One rule for each element, whose states are values beside it on the device
  // (optim/elementwise.h).
  constexpr bool is_elementwise() const {
    return !updates_in_backward() && !has_obstacle() && state.bits == 0 && !state.factored &&
           !state.projected && !state.paged && !state.on_host;
  }
  // Whether its states can wait on the host, tensor by tensor: none is there already, or is made
  // anew by an update, or goes by its tensor's number.
  constexpr bool can_offload() const {
    return !updates_in_backward() && !state.factored && !state.projected && !state.paged &&
           !state.on_host && on_shards != ShardEffect::kNumbersOwnParts;
  }
};

inline constexpr const char* kAnyprecisionNote =
    "optim adamw_anyprecision: transformers raises an error where torchdistx, last touched in "
    "2023, "
    "is missing; here its rule runs with float32 states, as transformers sets them";
inline constexpr const char* kApexNote =
    "optim adamw_apex_fused: apex has CUDA kernels only; here its rule runs with float32 states on "
    "every device";
inline constexpr const char* kAdamwHfNote =
    "optim adamw_hf: transformers removed it in 4.50; here it is the rule that it had, in which "
    "epsilon is added before the bias correction";
inline constexpr const char* kBnbRmspropNote =
    "optim rmsprop_bnb: bitsandbytes' CUDA kernel for 32 bits refuses bfloat16 gradients; here "
    "they "
    "work";
inline constexpr const char* kScheduleFreeNote =
    "optim schedule_free: the configured learning-rate schedule runs on top, as under "
    "transformers; its authors advise a constant one";
inline constexpr const char* kBnb8bitNote =
    "optim with 8 bits: embeddings and tensors below 4096 elements keep float32 states, as under "
    "transformers";
inline constexpr const char* kRmsprop8bitNote =
    "optim rmsprop_bnb_8bit: embeddings and tensors below 4096 elements keep float32 states, whose "
    "CUDA kernel in bitsandbytes refuses bfloat16 gradients; here they work";
inline constexpr const char* kPagedNote =
    "optim paged: on GPUs the states of tensors of 100,000 elements and more live in pinned host "
    "memory and are copied for each update; on CPUs this is the kind without paging";
inline constexpr const char* kGaloreNote =
    "optim galore: transformers asks for optim_target_modules, which no property sets; here the "
    "targets are the linear weights of attention and MLP, at rank 128 or their smaller dimension";
inline constexpr const char* kGaloreAdafactorLayerwiseNote =
    "optim galore_adafactor_layerwise: transformers raises an error (relative_step with a rate); "
    "here it is galore_adafactor inside the backward. Targets are the linear weights of attention "
    "and MLP, at rank 128 or their smaller dimension";
inline constexpr const char* kNpuObstacle =
    "needs an Ascend NPU (torch_npu), and this program trains on CPUs and on NVIDIA GPUs; "
    "adamw_torch_fused is the same update and works";
inline constexpr const char* kXlaObstacle =
    "needs an XLA device (a TPU, through torch_xla), and this program trains on CPUs and on NVIDIA "
    "GPUs; adamw_torch is the same update and works";

inline constexpr std::array kOptimizers = {
    OptimizerRow{.kind = OptimizerKind::kAdafactor,
                 .name = "adafactor",
                 .state = kFactoredState,
                 .on_shards = ShardEffect::kNotFactored},
    OptimizerRow{.kind = OptimizerKind::kAdagrad,
                 .name = "adagrad",
                 .state = states_like_parameter(1),
                 .foreach = true},
    OptimizerRow{.kind = OptimizerKind::kAdalomo,
                 .name = "adalomo",
                 .state = kFactoredState,
                 .update = UpdateTime::kInBackward},
    OptimizerRow{.kind = OptimizerKind::kAdamw8bit,
                 .name = "adamw_8bit",
                 .state = states_of_8_bits(2),
                 .note = kBnb8bitNote},
    OptimizerRow{.kind = OptimizerKind::kAdamwAnyprecision,
                 .name = "adamw_anyprecision",
                 .state = states_of_float32(2),
                 .note = kAnyprecisionNote},
    OptimizerRow{.kind = OptimizerKind::kAdamwApexFused,
                 .name = "adamw_apex_fused",
                 .state = states_of_float32(2),
                 .note = kApexNote},
    OptimizerRow{.kind = OptimizerKind::kAdamwBnb8bit,
                 .name = "adamw_bnb_8bit",
                 .state = states_of_8_bits(2),
                 .note = kBnb8bitNote},
    OptimizerRow{.kind = OptimizerKind::kAdamwHf,
                 .name = "adamw_hf",
                 .state = states_like_parameter(2),
                 .note = kAdamwHfNote},
    OptimizerRow{.kind = OptimizerKind::kAdamwTorch,
                 .name = "adamw_torch",
                 .state = states_like_parameter(2),
                 .foreach = true},
    OptimizerRow{
        .kind = OptimizerKind::kAdamwTorch4bit, .name = "adamw_torch_4bit", .state = kFourBitState},
    OptimizerRow{.kind = OptimizerKind::kAdamwTorchFused,
                 .name = "adamw_torch_fused",
                 .state = states_like_parameter(2)},
    OptimizerRow{.kind = OptimizerKind::kAdamwTorchNpuFused,
                 .name = "adamw_torch_npu_fused",
                 .state = states_like_parameter(2),
                 .obstacle = kNpuObstacle},
    OptimizerRow{.kind = OptimizerKind::kAdamwTorchXla,
                 .name = "adamw_torch_xla",
                 .state = states_like_parameter(2),
                 .obstacle = kXlaObstacle},
    OptimizerRow{
        .kind = OptimizerKind::kAdemamix, .name = "ademamix", .state = states_of_float32(3)},
    OptimizerRow{.kind = OptimizerKind::kAdemamix8bit,
                 .name = "ademamix_8bit",
                 .state = states_of_8_bits(3),
                 .note = kBnb8bitNote},
    OptimizerRow{.kind = OptimizerKind::kGaloreAdafactor,
                 .name = "galore_adafactor",
                 .state = kGaloreFactored,
                 .on_shards = ShardEffect::kNotProjected,
                 .note = kGaloreNote},
    OptimizerRow{.kind = OptimizerKind::kGaloreAdafactorLayerwise,
                 .name = "galore_adafactor_layerwise",
                 .state = kGaloreFactored,
                 .update = UpdateTime::kInBackwardOfLayer,
                 .on_shards = ShardEffect::kNotProjected,
                 .note = kGaloreAdafactorLayerwiseNote},
    OptimizerRow{.kind = OptimizerKind::kGaloreAdamw,
                 .name = "galore_adamw",
                 .state = kGaloreAdam,
                 .on_shards = ShardEffect::kNotProjected,
                 .note = kGaloreNote},
    OptimizerRow{.kind = OptimizerKind::kGaloreAdamw8bit,
                 .name = "galore_adamw_8bit",
                 .state = kGaloreEightBit,
                 .on_shards = ShardEffect::kNotProjected,
                 .note = kGaloreNote},
    OptimizerRow{.kind = OptimizerKind::kGaloreAdamw8bitLayerwise,
                 .name = "galore_adamw_8bit_layerwise",
                 .state = kGaloreEightBit,
                 .update = UpdateTime::kInBackwardOfLayer,
                 .on_shards = ShardEffect::kNotProjected,
                 .note = kGaloreNote},
    OptimizerRow{.kind = OptimizerKind::kGaloreAdamwLayerwise,
                 .name = "galore_adamw_layerwise",
                 .state = kGaloreAdam,
                 .update = UpdateTime::kInBackwardOfLayer,
                 .on_shards = ShardEffect::kNotProjected,
                 .note = kGaloreNote},
    OptimizerRow{.kind = OptimizerKind::kGrokadamw,
                 .name = "grokadamw",
                 .state = on_host(states_like_parameter(3)),
                 .on_shards = ShardEffect::kNumbersOwnParts},
    OptimizerRow{
        .kind = OptimizerKind::kLion32bit, .name = "lion_32bit", .state = states_of_float32(1)},
    OptimizerRow{.kind = OptimizerKind::kLion8bit,
                 .name = "lion_8bit",
                 .state = states_of_8_bits(1),
                 .note = kBnb8bitNote},
    OptimizerRow{.kind = OptimizerKind::kLomo, .name = "lomo", .update = UpdateTime::kInBackward},
    OptimizerRow{.kind = OptimizerKind::kPagedAdamw32bit,
                 .name = "paged_adamw_32bit",
                 .state = paged(states_of_float32(2)),
                 .note = kPagedNote},
    OptimizerRow{.kind = OptimizerKind::kPagedAdamw8bit,
                 .name = "paged_adamw_8bit",
                 .state = paged(states_of_8_bits(2)),
                 .note = kPagedNote},
    OptimizerRow{.kind = OptimizerKind::kPagedAdemamix32bit,
                 .name = "paged_ademamix_32bit",
                 .state = paged(states_of_float32(3)),
                 .note = kPagedNote},
    OptimizerRow{.kind = OptimizerKind::kPagedAdemamix8bit,
                 .name = "paged_ademamix_8bit",
                 .state = paged(states_of_8_bits(3)),
                 .note = kPagedNote},
    OptimizerRow{.kind = OptimizerKind::kPagedLion32bit,
                 .name = "paged_lion_32bit",
                 .state = paged(states_of_float32(1)),
                 .note = kPagedNote},
    OptimizerRow{.kind = OptimizerKind::kPagedLion8bit,
                 .name = "paged_lion_8bit",
                 .state = paged(states_of_8_bits(1)),
                 .note = kPagedNote},
    OptimizerRow{.kind = OptimizerKind::kRmsprop,
                 .name = "rmsprop",
                 .state = states_like_parameter(1),
                 .foreach = true},
    OptimizerRow{.kind = OptimizerKind::kRmspropBnb,
                 .name = "rmsprop_bnb",
                 .state = states_of_float32(1),
                 .note = kBnbRmspropNote},
    OptimizerRow{.kind = OptimizerKind::kRmspropBnb32bit,
                 .name = "rmsprop_bnb_32bit",
                 .state = states_of_float32(1),
                 .note = kBnbRmspropNote},
    OptimizerRow{.kind = OptimizerKind::kRmspropBnb8bit,
                 .name = "rmsprop_bnb_8bit",
                 .state = states_of_8_bits(1),
                 .note = kRmsprop8bitNote},
    OptimizerRow{.kind = OptimizerKind::kScheduleFreeAdamw,
                 .name = "schedule_free_adamw",
                 .state = states_like_parameter(2),
                 .note = kScheduleFreeNote},
    OptimizerRow{.kind = OptimizerKind::kScheduleFreeSgd,
                 .name = "schedule_free_sgd",
                 .state = states_like_parameter(1),
                 .note = kScheduleFreeNote},
    OptimizerRow{.kind = OptimizerKind::kSgd, .name = "sgd"},
};
static_assert(is_in_order(kOptimizers));

constexpr const auto& rows_of(OptimizerKind) {
  return kOptimizers;
}
constexpr const char* noun_of(OptimizerKind) {
  return "optimizer";
}

}  // namespace sftbench
