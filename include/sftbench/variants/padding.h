// How entries become rows of a micro-batch.
#pragma once

#include <array>

#include "sftbench/base/named.h"

namespace sftbench {

enum class Padding {
  kLongest,    // pads to the longest entry of a micro-batch, as Hugging Face's collator does
  kMaxLength,  // to the model's length: the fixed shapes of a benchmark
  kNone,       // lays entries one behind the other in one row (DataCollatorWithFlattening)
  kPacked,     // the same for entries that fill the model's length together
};

struct PaddingRow {
  Padding kind;
  const char* name;
  bool one_row = false;  // all entries of a micro-batch share one row, with a position each
};

inline constexpr std::array kPaddings = {
    PaddingRow{Padding::kLongest, "longest"},
    PaddingRow{Padding::kMaxLength, "max_length"},
    PaddingRow{Padding::kNone, "none", true},
    PaddingRow{Padding::kPacked, "packed", true},
};
static_assert(is_in_order(kPaddings));

constexpr const auto& rows_of(Padding) {
  return kPaddings;
}
constexpr const char* noun_of(Padding) {
  return "padding";
}

}  // namespace sftbench
