// Where the tokens of a mixture of experts go: each token's choices sorted by expert, the rows of
// the experts gathered from the tokens', and the experts' results added up with the router's
// weights. Each is one pass over memory, and sums have one order for any number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

// The choices of T tokens, k each, sorted by expert; those of one expert in the order of the
// tokens.
struct Routes {
  torch::Tensor tokens;     // [T k] int64: whose row stands at a sorted position
  torch::Tensor positions;  // [T, k] int64: where the row of a choice stands
  std::vector<int64_t>
      offsets;  // [E + 1] expert e has the positions from offsets[e] to offsets[e + 1]
};

// experts [T, k] int64: the choices, as top-k gives them, each below expert_count. No gradient. On
// a GPU this waits for the counts.
Routes sort_by_expert(const torch::Tensor& experts, int64_t expert_count);

// While one of these lives, the choices are taken to be spread evenly over the experts, whatever
// the device says: for a rehearsal, whose device computes nothing. The rows of an expert are then
// not those that chose it.
class EvenRoutes {
 public:
  EvenRoutes();
  ~EvenRoutes();
  EvenRoutes(const EvenRoutes&) = delete;
  EvenRoutes& operator=(const EvenRoutes&) = delete;

  static bool are_assumed();
};

// x [T, H] -> [T k, H]: row p is x[tokens[p]]. Differentiable in x.
torch::Tensor gather_rows(const torch::Tensor& x, const Routes& routes);

// y [T k, H], weights [T, k] of y's dtype or float32 -> [T, H]: row t is the sum over j of
// weights[t, j] * y[positions[t, j]], added up in float32 at least and rounded once. Differentiable
// in y and weights. Keeps both.
torch::Tensor combine_rows(const torch::Tensor& y, const torch::Tensor& weights,
                           const Routes& routes);

}  // namespace sftbench::ops
