// Precisions: what parameters are stored in, and what products are computed in.
#pragma once

#include <array>
#include <cstdint>

#include "sftbench/base/named.h"

namespace sftbench {

// Of the parameters: transformers' torch_dtype.
enum class ParameterDtype { kBfloat16, kFloat16, kFloat32 };

struct ParameterDtypeRow {
  ParameterDtype kind;
  const char* name;
  int64_t bytes;
};

inline constexpr std::array kParameterDtypes = {
    ParameterDtypeRow{ParameterDtype::kBfloat16, "bfloat16", 2},
    ParameterDtypeRow{ParameterDtype::kFloat16, "float16", 2},
    ParameterDtypeRow{ParameterDtype::kFloat32, "float32", 4},
};
static_assert(is_in_order(kParameterDtypes));

constexpr const auto& rows_of(ParameterDtype) {
  return kParameterDtypes;
}
constexpr const char* noun_of(ParameterDtype) {
  return "torch_dtype";
}

// What products run in when it differs from the parameters' dtype: Accelerate's mixed_precision.
enum class Autocast { kBf16, kFp16, kFp8, kNo };

struct AutocastRow {
  Autocast kind;
  const char* name;
  // What is left to torch.autocast; under fp8 that is all but the linears.
  std::optional<ParameterDtype> dtype = {};
  const char* computes_in = "";  // products, as results say it; empty: the parameters' dtype
};

inline constexpr std::array kAutocasts = {
    AutocastRow{Autocast::kBf16, "bf16", ParameterDtype::kBfloat16, "bfloat16"},
    AutocastRow{Autocast::kFp16, "fp16", ParameterDtype::kFloat16, "float16"},
    AutocastRow{Autocast::kFp8, "fp8", ParameterDtype::kBfloat16, "fp8"},
    AutocastRow{Autocast::kNo, "no"},
};
static_assert(is_in_order(kAutocasts));

constexpr const auto& rows_of(Autocast) {
  return kAutocasts;
}
constexpr const char* noun_of(Autocast) {
  return "autocast";
}

// The dtype of products, by name.
constexpr const char* product_dtype_name(ParameterDtype stored, Autocast autocast) {
  return autocast == Autocast::kNo ? name_of(stored) : row_of(autocast).computes_in;
}

}  // namespace sftbench
