// How often each operator of ATen is called on the phantom device, and on how much of its memory.
#pragma once

#include <cstdint>
#include <string>

#include "sftbench/base/torch.h"

namespace sftbench::phantom {

// What an operator reads and writes: a kernel that computes it reads each operand at least once. An
// operator that reads through an index counts its whole source.
struct Traffic {
  int64_t read_bytes = 0, written_bytes = 0;
};

// Adds one call. The sums of all calls are appended to the file that SFTBENCH_PHANTOM_OPERATORS
// names when the process ends: a line "NAME CALLS READ_BYTES WRITTEN_BYTES" for each operator.
void note_call(const std::string& name, const Traffic& traffic);

// Appends a line "KERNEL BATCH LENGTH" to the file that SFTBENCH_PHANTOM_ATTENTION names. q [B, H,
// S, D]
void note_attention(const char* kernel, const torch::Tensor& q);

// Of the elements that a tensor has in the device's memory: a dimension that is expanded has one.
int64_t bytes_of(const torch::Tensor& tensor);
inline int64_t bytes_of(const c10::optional<torch::Tensor>& tensor) {
  return tensor ? bytes_of(*tensor) : 0;
}
template <class Value>
int64_t bytes_of(const Value&) {
  return 0;
}

}  // namespace sftbench::phantom
