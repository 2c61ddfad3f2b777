// What an implementation of the state-space scan gives. Shapes as in state_space_scan.h; dt, a and
// d are contiguous in the wide dtype. x, b and c have what one position holds side by side and
// positions of all batches equally far apart. The states at the starts of chunks are in an order
// that only the implementation knows.
#pragma once

#include <utility>
#include <vector>

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

struct ScanInputs {
  torch::Tensor x, dt, a, b, c, d;
  std::vector<int64_t> offsets;  // those of PackedSequences
  torch::Tensor cumulative;      // the same on x's device, or undefined
};

struct ScanGradients {
  torch::Tensor x, b, c;   // of x's dtype
  torch::Tensor dt, a, d;  // in the wide dtype
};

struct ScanImpl {
  // {y, states}; without `keeps_states` these are undefined.
  std::pair<torch::Tensor, torch::Tensor> (*forward)(const ScanInputs& in, bool keeps_states);
  ScanGradients (*backward)(const torch::Tensor& y_gradient, const ScanInputs& in,
                            const torch::Tensor& states);
};

constexpr int64_t kScanChunk = 128;

extern const ScanImpl kScanCpu;
extern const ScanImpl kScanCuda;  // in the CUDA flavor; not for float64
extern const ScanImpl kScanAten;  // any device and dtype, from stock operators

}  // namespace sftbench::ops
