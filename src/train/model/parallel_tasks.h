// Many small independent tasks in one parallel region: threads take the next task when they are
// done with the last, so a slow or preempted one holds up nobody, and regions are not entered and
// left once per tensor.
#pragma once

#include <ATen/Parallel.h>
#include <c10/core/GradMode.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace sftbench {

// Calls task(i) for every i in [0, count), without recording gradients. Tensor operations inside
// run serially.
template <typename Task>
void run_parallel_tasks(size_t count, const Task& task) {
  std::atomic<size_t> next{0};
  at::parallel_for(0, at::get_num_threads(), 1, [&](int64_t, int64_t) {
    const c10::AutoGradMode no_grad(false);  // the mode is per thread
    for (size_t i = next++; i < count; i = next++) task(i);
  });
}

}  // namespace sftbench
