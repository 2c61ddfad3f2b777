// Where the sequences of a packed row begin, as kernels find it: the cumulative lengths of
// PackedSequences, or nothing where each row is one sequence.
#pragma once

#include <cstdint>

#include "ops/cuda/launch.h"

namespace sftbench::ops {

struct SequenceStarts {
  const int* cumulative = nullptr;  // [count + 1]: 0, the first position of each further one, S
  int count = 1;

  // The sequence that holds this position.
  __device__ __forceinline__ int index_of(int64_t position) const {
    int first = 0, last = count - 1;
    while (first < last) {
      const int middle = (first + last + 1) / 2;
      if (cumulative[middle] <= position) {
        first = middle;
      } else {
        last = middle - 1;
      }
    }
    return first;
  }
  __device__ __forceinline__ int64_t start(int index) const {
    return cumulative == nullptr ? 0 : cumulative[index];
  }
  __device__ __forceinline__ int64_t start_of(int64_t position) const {
    return cumulative == nullptr ? 0 : cumulative[index_of(position)];
  }
};

inline SequenceStarts sequence_starts(const torch::Tensor& cumulative) {
  if (!cumulative.defined()) return {};
  return {cumulative.data_ptr<int>(), static_cast<int>(cumulative.numel()) - 1};
}

}  // namespace sftbench::ops
