// What a GPU held when it held most: which phase and layer asked for the memory that made it so,
// and which allocated what was there. It follows libtorch's caching allocator, allocation by
// allocation.
#pragma once

#include <memory>
#include <string>

#include "engine/activation_checkpoint.h"
#include "engine/training_device.h"
#include "sftbench/measure/events.h"

namespace sftbench {

class DeviceMemoryWatch {
 public:
  virtual ~DeviceMemoryWatch() = default;

  // What the rank does from now on. Allocations count as made there, of whichever thread they are.
  virtual void at(const std::string& place) = 0;

  // Since the watch was made. Held bytes are rounded as the allocator rounds small requests. What
  // it does not split off a larger block is not counted.
  virtual MemoryPeak peak() const = 0;
};

// What is allocated already counts as held by "before training". Null on CPUs.
std::unique_ptr<DeviceMemoryWatch> watch_memory(const TrainingDevice& device);

// `activations`, which also tell the watch which layer runs. The watch outlives the result.
std::unique_ptr<ActivationPolicy> watch_layers(std::unique_ptr<ActivationPolicy> activations,
                                               DeviceMemoryWatch& watch);

}  // namespace sftbench
