// Tensors of files, added up: the arithmetic of merge_adapter.cpp. All is computed in float32 and
// rounded once.
#pragma once

#include <cstddef>
#include <vector>

#include "sftbench/checkpoint/checkpoint.h"

namespace sftbench {

// A tensor and the file that has its bytes.
struct Place {
  const CheckpointShard* shard = nullptr;
  const StoredTensor* tensor = nullptr;
};

// What LoRA adds to a weight: scaling * B A, a linear's [out, in]. Its transpose of an embedding,
// [rows, width], and of a linear that is stored as [in, out].
struct Delta {
  Place a, b;            // [r, in], [out, r]; of an embedding [r, rows], [width, r]
  Place magnitude = {};  // [out] of DoRA; no tensor without
  bool of_embedding = false;
  bool transposed = false;
  float scaling = 0;
};

// F32, BF16 or F16.
bool is_float(StoredDtype dtype);

std::vector<float> floats_of(const Place& place);

// In another dtype. InputError where that does not hold a value.
std::vector<std::byte> converted(const Place& place, StoredDtype dtype);

// weight += delta, in the weight's dtype. With a magnitude each output's row of the sum is given
// that length, as peft.tuners.lora.variants.DoraLinearVariant does it. InputError where a value
// leaves what the dtype holds.
void add_delta(std::vector<std::byte>& weight, StoredDtype dtype, const Delta& delta, int threads);

}  // namespace sftbench
