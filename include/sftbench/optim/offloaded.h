// An optimizer whose states wait in the host's memory: neighboring parameters make a chunk, whose
// states visit the device for its update, while those of the next chunk arrive and those of the one
// before leave. The update itself is that of the plain optimizer, in the same bits. Parameters and
// gradients that are in the host's memory, too, come along.
//
// On the device, while it updates: two buffers of the largest chunk's states, and none otherwise. A
// step copies the state to the device once and back once. Computing the update on the host instead
// would move gradients and parameters, which is half as much of float32, but waits for the host's
// memory: of AdamW 28 bytes an element, which all GPUs of a node share.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "sftbench/optim/optimizer.h"

namespace sftbench {

class OffloadedOptimizer : public Optimizer {
 public:
  // Of the buffers of the last step.
  virtual int64_t buffer_bytes() const = 0;
};

// What is in the host's memory.
enum class Offloaded { kStates, kStatesAndParameters };

// REQUIRES: row_of(kind).can_offload(). `device`: that updates.
std::unique_ptr<OffloadedOptimizer> make_offloaded(OptimizerKind kind,
                                                   const std::vector<ParameterGroup>& groups,
                                                   const OptimizerOptions& options, Offloaded what,
                                                   torch::Device device);

}  // namespace sftbench
