// Memory of CPU tensors. libtorch takes each large tensor from glibc, which gives it back to the
// kernel when it is freed and faults it in again, zeroed, at the next step: a quarter of a training
// step. This allocator keeps everything it ever had in one arena of huge pages and hands out its
// lowest free block that fits, so that a step finds the pages of the step before it and the arena
// stays as small as the peak of what is alive.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace sftbench {

struct HostMemoryStatistics {
  int64_t allocated_bytes = 0;       // in live tensors
  int64_t peak_allocated_bytes = 0;  // the most there ever was
  int64_t arena_bytes = 0;           // taken from the kernel; never given back
};

// Makes libtorch take CPU tensors from the arena from now on; tensors that exist keep their memory.
// Idempotent, not thread-safe: call it before the first tensor. glibc's own heap, where libraries
// take their scratch space, is told to keep its memory too.
void install_host_memory();

HostMemoryStatistics host_memory_statistics();

// Takes the pages of the arena's first bytes from the kernel, by several threads and while others
// use them already. A thread that meets them one after the other waits for the kernel to clear
// each. On a virtual machine whose host has to find the memory first, that takes longer than all
// else before the first step. Nothing happens where the kernel is older than Linux 5.14.
class HostMemoryAhead {
 public:
  // `bytes` that will be used in any case: they count as used from now on. REQUIRES: memory is
  // installed.
  HostMemoryAhead(int64_t bytes, int threads);
  ~HostMemoryAhead();  // waits for all of them
  HostMemoryAhead(const HostMemoryAhead&) = delete;
  HostMemoryAhead& operator=(const HostMemoryAhead&) = delete;

 private:
  void take();

  std::byte* begin_ = nullptr;
  size_t bytes_;
  std::atomic<size_t> next_{0};
  std::vector<std::thread> threads_;
};

// Starts the peak anew at what is allocated now.
void reset_host_memory_peak();

}  // namespace sftbench
