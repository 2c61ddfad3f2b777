// Dropout whose choice is a function of a seed and of an element's place alone, on every device:
// what is recomputed drops what it dropped the first time, and nothing is stored.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace sftbench::ops {

struct Dropout {
  double probability = 0;  // rounded to a multiple of 2^-16, the scale with it
  uint64_t seed = 0;
};

// A seed for each of the things that share one.
uint64_t derived_seed(uint64_t seed, uint64_t index);

// x with the dropped elements zero and the others as they are; what is left has to be multiplied
// with kept_scale() to keep its expectation.
torch::Tensor zero_dropped(const torch::Tensor& x, const Dropout& dropout);
double kept_scale(const Dropout& dropout);

// torch.nn.functional.dropout: both of the above. Differentiable in x; x itself where nothing is
// dropped.
torch::Tensor dropout(const torch::Tensor& x, const Dropout& dropout);

}  // namespace sftbench::ops
