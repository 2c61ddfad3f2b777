// The probabilities that a configuration fits its devices, fits but thrashes, or dies.
#pragma once

#include <optional>

#include "sftbench/advise/oracle.h"
#include "sftbench/advise/uncertainty.h"

namespace sftbench {

// They add up to 1. Thrashing: the run needs so much of its device (kThrashingMemory) that the
// allocator gives memory back and asks for it again all the time.
struct Odds {
  double fits = 1;
  double thrashes = 0;
  double dies = 0;
};

// Nothing where the device's memory is not known.
std::optional<Odds> odds_of(const Prediction& prediction, const Uncertainty& uncertainty);

// Intervals of a prediction in its units.
struct Range {
  double low = 0, expected = 0, high = 0;
};
Range step_range(const Prediction& prediction, const Uncertainty& uncertainty);    // seconds
Range memory_range(const Prediction& prediction, const Uncertainty& uncertainty);  // needed_bytes
// With free blocks that the allocator keeps, as nvidia-smi shows it on a device that has room.
Range held_range(const Prediction& prediction, const Uncertainty& uncertainty);

}  // namespace sftbench
