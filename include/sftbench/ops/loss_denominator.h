// What the sum of a micro-batch's losses is divided by: the positions of the step that bear loss.
#pragma once

#include <utility>

#include "sftbench/ops/tensor.h"

namespace sftbench::ops {

// A number of the host, or one that is read when the device gets there: a recorded step has another
// each time (engine/step_graph.h).
struct LossDenominator {
  // NOLINTNEXTLINE(google-explicit-constructor): nearly all are numbers
  LossDenominator(double number) : value(number) {}
  // float64 scalar on the GPU of the loss.
  explicit LossDenominator(torch::Tensor scalar) : on_device(std::move(scalar)) {}

  // numerator / this.
  torch::Tensor divide(const torch::Tensor& numerator) const;

  double value = 1;         // where `on_device` is undefined
  torch::Tensor on_device;  // undefined: it is `value`
};

}  // namespace sftbench::ops
