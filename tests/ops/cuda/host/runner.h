// Runs a kernel that was compiled as C++ on the CPU, so that its logic can be tested without a GPU.
// A block is a set of fibers that switch at barriers and shuffles only, in a seeded random order.
// Blocks run one after another, in a random order too. Shared memory begins as NaN. A thread that
// ends while others wait at a barrier, a shuffle that not all lanes reach, a misaligned vector and
// a write behind a shared variable are errors.
// What it cannot show: races between blocks, bank conflicts, occupancy, asynchronous copies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

// CUDA's own names of these, which kernels use.
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): as CUDA has it
  constexpr dim3(unsigned in_x, unsigned in_y = 1, unsigned in_z = 1) : x(in_x), y(in_y), z(in_z) {}
};
inline thread_local dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace sftbench::ops::host {

struct Settings {
  uint64_t seed = 1;        // of the order of blocks and threads
  int multiprocessors = 2;  // few, so that small tensors already loop over the grid
  // Takes launches instead of running them at once: the queue of a stand-in stream.
  std::function<void(std::function<void()>)> submit;
  // Runs a launch, and may look at what it does: bench/traffic counts the memory that kernels
  // access.
  std::function<void(const void* kernel, const std::function<void()>& launch)> around = {};
};
Settings& settings();

// What a kernel did wrong, with its block and thread.
struct KernelFault : std::logic_error {
  using std::logic_error::logic_error;
};

// Throws KernelFault from the launch. Called by a thread of a kernel.
[[noreturn]] void fault(const std::string& what);

void run(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread);

// --- what threads of a kernel call ---------------------------------------------------------------

enum class WarpOperation { kSync, kXor, kDown, kFrom };

void wait_for_block();

// Waits for the other lanes of the warp, and returns the bits that lane `source` brought.
// `operand` must be the same in all lanes, unless the operation is kFrom.
uint64_t exchange(WarpOperation operation, unsigned mask, int operand, int source, uint64_t bits);

// The block's variable of this key, made when the first thread asks.
void* shared_variable(const void* key, size_t bytes, size_t alignment);
void* dynamic_shared_memory();

template <class T, class Tag>
T& shared(Tag) {
  static char key;  // one for each lambda, which is one for each declaration and instantiation
  return *static_cast<T*>(shared_variable(&key, sizeof(T), alignof(T)));
}

}  // namespace sftbench::ops::host
