// What the operator tests share: random inputs, and the comparison with a float64 reference. The
// reference is the operator sequence of Hugging Face written with plain tensor operations in the
// test; inputs are drawn, rounded to the dtype under test, and widened again for the reference, so
// both see the same numbers.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "sftbench/base/torch.h"
#include "test_device.h"

namespace sftbench::ops {

using torch::Tensor;

inline const std::vector<torch::Dtype> kDtypes = {torch::kFloat64, torch::kFloat32,
                                                  torch::kBFloat16, torch::kFloat16};

// Normal numbers of the dtype on the test device; the same for the same seed, on every device.
Tensor random_tensor(at::IntArrayRef sizes, torch::Dtype dtype, uint64_t seed);

// The tensors of a safetensors file below tests/reference, on the CPU. The module under test knows
// no such files.
std::map<std::string, Tensor> golden_tensors(const std::string& file);

// What an operator says of arguments that do not fit.
template <class Body>
std::string refusal_of(const Body& body) {
  try {
    body();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "no error";
}

// A leaf that requires a gradient: a copy of `tensor` in `dtype`.
Tensor leaf(const Tensor& tensor, torch::Dtype dtype);
Tensor leaf(const Tensor& tensor);

// The largest |actual - expected|, relative to the largest |expected| of the tensor.
double relative_error(const Tensor& actual, const Tensor& expected);

// Half an ulp of the largest value, times a factor for intermediate roundings. Stands at the end of
// support_test.cpp.
double tolerance(torch::Dtype dtype);

// Fails unless dtype and shape are as expected and the relative error is within the dtype's
// tolerance times `slack`.
void expect_close(const std::string& what, const Tensor& actual, const Tensor& expected,
                  double slack = 1.0);

// Runs `op` on leaves of the inputs and `reference` on float64 leaves of the same numbers, sends
// the same random gradient back through both, and compares the output and every input's gradient.
using Op = std::function<Tensor(const std::vector<Tensor>&)>;
void expect_op_matches(const std::string& what, const Op& op, const Op& reference,
                       const std::vector<Tensor>& inputs, double slack = 1.0);

}  // namespace sftbench::ops
