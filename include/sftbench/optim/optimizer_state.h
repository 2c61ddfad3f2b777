// What an optimizer remembers, named piece by piece. Saving and restoring are two visitors of one
// enumeration (Optimizer::visit_state), so that neither forgets what the other knows. Tensors are
// written in place; names are torch's where torch has the state ("exp_avg").
//
// Where a rank owns another part of a parameter than the one that saved it did:
//   values     go along, element by element
//   quantized  do so as the numbers that their codes stand for, and are rounded anew
//   shaped     cannot: they are of no single element (factored squares, projections)
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <string>

#include "sftbench/ops/blockwise_quantize.h"

namespace sftbench {

class OptimizerStateVisitor {
 public:
  virtual ~OptimizerStateVisitor() = default;

  // What follows is of the parameter of this name; before the first call, of the optimizer itself.
  virtual void parameter(const std::string& name) = 0;

  virtual void number(const char* name, int64_t& value) = 0;
  virtual void number(const char* name, double& value) = 0;

  // One for each element that the optimizer updates of the parameter.
  virtual void values(const char* name, const torch::Tensor& values) = 0;
  virtual void quantized(const char* name, const ops::QuantizedTensor& values) = 0;
  virtual void shaped(const char* name, const torch::Tensor& values) = 0;
};

}  // namespace sftbench
