// From tensors to CPU kernels: which dtypes have them, and how loops are dealt to threads.
#pragma once

#include <ATen/Parallel.h>
#include <torch/types.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "ops/cpu/kernels.h"

namespace sftbench::ops {

// float64 (for gradient checks) and other devices take the path of stock operators.
inline bool has_cpu_kernels(const torch::Tensor& tensor) {
  return tensor.device().is_cpu() && tensor.scalar_type() != torch::kFloat64;
}

inline bool has_cuda_kernels(const torch::Tensor& tensor) {
  return tensor.is_cuda() && tensor.scalar_type() != torch::kFloat64;
}

inline const CpuKernels& cpu_kernels(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kBFloat16:
      return cpu_kernels(CpuType::kBFloat16);
    case torch::kFloat16:
      return cpu_kernels(CpuType::kFloat16);
    default:
      return cpu_kernels(CpuType::kFloat32);
  }
}

// The element `index` of a contiguous tensor.
inline char* element(const torch::Tensor& tensor, int64_t index) {
  return static_cast<char*>(tensor.data_ptr()) + index * tensor.element_size();
}

// body(begin, end) on ranges of [0, count) of whole vectors, at least `grain` long.
template <class Body>
void parallel_elements(int64_t count, int64_t grain, const Body& body) {
  constexpr int64_t kVector = 64;
  const int64_t vectors = (count + kVector - 1) / kVector;
  at::parallel_for(
      0, vectors, std::max<int64_t>(1, grain / kVector),
      [&](int64_t begin, int64_t end) { body(begin * kVector, std::min(end * kVector, count)); });
}

// task(index, thread) for each index, handed out one by one: for tasks of unequal length. Threads
// are numbered from 0 up to at::get_num_threads().
template <class Task>
void parallel_tasks(int64_t count, const Task& task) {
  std::atomic<int64_t> next{0};
  const int64_t threads = std::min<int64_t>(count, at::get_num_threads());
  at::parallel_for(0, threads, 1, [&](int64_t begin, int64_t end) {
    // A nested call may give one range to one thread: every range drains the queue.
    (void)end;
    for (int64_t index = next++; index < count; index = next++) task(index, begin);
  });
}

}  // namespace sftbench::ops
