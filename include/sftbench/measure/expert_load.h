// How evenly the positions of a run chose the experts of a mixture: why it is slower than its
// active parameters suggest. Positions count once for each expert that they chose, padding
// included, since that is what is multiplied.
//
//   tokens_per_expert  the mean over all experts of a layer, of a step
//   imbalance          tokens of the busiest expert over that mean; the mean over layers
//   worst_imbalance    the same of the layer where it is largest
//   busiest_share      of that layer's tokens, what its busiest expert got
//   rank_imbalance     as imbalance, of the parts of the experts that ranks divide; 1 for one part
//
// A step without a token is even: 1, and 1 / experts.
#pragma once

#include <cstdint>
#include <vector>

#include "sftbench/measure/events.h"

namespace sftbench {

struct ExpertCounts {
  int64_t experts = 0;
  int64_t per_token = 0;
  int64_t ranks = 1;            // divides `experts`: each has as many neighbors
  std::vector<int64_t> tokens;  // [steps, layers, experts], of all ranks
  int64_t steps = 0;
};

ExpertLoad expert_load(const ExpertCounts& counts);

}  // namespace sftbench
