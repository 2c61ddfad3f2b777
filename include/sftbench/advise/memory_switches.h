// What makes a configuration fit that does not: each switch alone, with the memory that it saves
// and the time that it costs, and the fewest of them that are enough together.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sftbench/advise/oracle.h"
#include "sftbench/base/json.h"

namespace sftbench {

struct MemorySwitch {
  Json changes;  // property -> value; "experiment" -> its identifier; "stack" -> its name
  bool trains_alike = false;  // the same parameters on the same entries, with the same optimizer
  Prediction prediction;      // with it
  double saved_bytes = 0;     // of the fullest GPU
  // Of the time of a token. Nothing where something moves to the host of an unlisted GPU, whose
  // slot is not known.
  std::optional<double> time_factor;

  std::string words() const;  // "--set gradient_checkpointing=true"
};

// Those that save at least a hundredth of what `now` needs, which is the prediction of `request`:
// first those that train alike, then by their time, an unknown one last.
std::vector<MemorySwitch> memory_switches(const MeasurementRequest& request, const Prediction& now,
                                          Oracle& oracle);

// The fewest of `switches`, from the first on, with which it fits; nothing when all together do
// not.
std::optional<MemorySwitch> enough_switches(const MeasurementRequest& request,
                                            const Prediction& now,
                                            const std::vector<MemorySwitch>& switches,
                                            Oracle& oracle);

}  // namespace sftbench
