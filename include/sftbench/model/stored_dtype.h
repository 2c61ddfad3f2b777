// torch's dtypes and those of safetensors files, both ways.
#pragma once

#include <torch/types.h>

#include <optional>

#include "sftbench/base/error.h"
#include "sftbench/checkpoint/safetensors.h"

namespace sftbench {

// None for what no tensor here is read as (float8, booleans, unsigned integers of several bytes).
inline std::optional<torch::Dtype> torch_dtype_of(StoredDtype dtype) {
  switch (dtype) {
    case StoredDtype::kF64:
      return torch::kFloat64;
    case StoredDtype::kF32:
      return torch::kFloat32;
    case StoredDtype::kF16:
      return torch::kFloat16;
    case StoredDtype::kBF16:
      return torch::kBFloat16;
    case StoredDtype::kI64:
      return torch::kInt64;
    case StoredDtype::kI32:
      return torch::kInt32;
    case StoredDtype::kI16:
      return torch::kInt16;
    case StoredDtype::kI8:
      return torch::kInt8;
    case StoredDtype::kU8:
      return torch::kUInt8;
    default:
      return std::nullopt;
  }
}

// REQUIRES: one of those above.
inline StoredDtype stored_dtype_of(torch::Dtype dtype) {
  for (const StoredDtype stored : {StoredDtype::kF64, StoredDtype::kF32, StoredDtype::kF16,
                                   StoredDtype::kBF16, StoredDtype::kI64, StoredDtype::kI32,
                                   StoredDtype::kI16, StoredDtype::kI8, StoredDtype::kU8}) {
    if (torch_dtype_of(stored) == dtype) return stored;
  }
  check(false, "a tensor of this dtype can be stored");
  return StoredDtype::kF32;
}

}  // namespace sftbench
