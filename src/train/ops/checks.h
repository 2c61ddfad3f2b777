// Preconditions of operators, checked before any work: std::invalid_argument that says what was
// expected and found.
#pragma once

#include <torch/types.h>

#include <string>
#include <vector>

#include "sftbench/ops/attention.h"

namespace sftbench::ops {

// "bfloat16 [4, 576] on cpu"
std::string describe(const torch::Tensor& tensor);

// Throws "OP: EXPECTED, got FOUND" unless `holds`.
void require(bool holds, const char* op, const std::string& expected, const std::string& found);

// Throws unless the tensor is defined and has this shape (-1: any size) and the dtype and device of
// `like`.
void require_like(const torch::Tensor& tensor, const char* op, const char* name,
                  const std::vector<int64_t>& shape, const torch::Tensor& like);

// Throws unless the tensor is floating point and of a dtype that the operators know.
void require_float(const torch::Tensor& tensor, const char* op, const char* name);

// Throws unless there are no packed sequences, or they fill the only row of the tensor [1, S, ..].
void require_packed(const PackedSequences& packed, const char* op, const char* name,
                    const torch::Tensor& tensor);

}  // namespace sftbench::ops
