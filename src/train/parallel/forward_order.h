// The order in which a model reads its parameters: what stands in front of the layers, the layers,
// what stands behind them. An optimizer may go by a parameter's number in it.
#pragma once

#include <vector>

#include "sftbench/parallel/parallel_parameters.h"

namespace sftbench {

inline std::vector<UnitTensor> in_forward_order(const std::vector<ParameterUnit>& units) {
  std::vector<UnitTensor> front, behind;
  for (size_t unit = 0; unit < units.size(); ++unit) {
    for (const UnitTensor& tensor : units[unit].tensors) {
      (unit == 0 && tensor.behind_layers ? behind : front).push_back(tensor);
    }
  }
  front.insert(front.end(), behind.begin(), behind.end());
  return front;
}

}  // namespace sftbench
