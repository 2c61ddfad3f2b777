#include "engine/host_memory.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "engine/arena.h"
#include "sftbench/base/error.h"
#include "sftbench/ops/torch_version.h"

namespace sftbench {
namespace {

// Tensors below this size come and go too often for a search through the arena, and are nothing in
// sum.
constexpr size_t kSmall_bytes = 4096;

// Pages that are taken at a time: growing the arena waits for as long.
constexpr size_t kTakenBytes = size_t{4} << 20;

// glibc refuses a larger one (HEAP_MAX_SIZE / 2).
constexpr int kLargestMmapThreshold_bytes = 32 << 20;

size_t physical_memory_bytes() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

// Never destroyed: tensors in static storage outlive every destructor.
Arena& arena() {
  static Arena* const the_arena = new Arena(2 * physical_memory_bytes());
  return *the_arena;
}

// libtorch wants one deleter per allocator: small and large blocks are told apart by their address.
class ArenaAllocator final : public c10::Allocator {
 public:
#if SFTBENCH_TORCH_2
  c10::DataPtr allocate(size_t bytes) override {
    return allocate_block(bytes);
  }
  void copy_data(void* target, const void* source, std::size_t bytes) const override {
    std::memcpy(target, source, bytes);
  }
#else
  c10::DataPtr allocate(size_t bytes) const override {
    return allocate_block(bytes);
  }
#endif
  c10::DeleterFnPtr raw_deleter() const override {
    return free_block;
  }

 private:
  static c10::DataPtr allocate_block(size_t bytes) {
    if (bytes == 0) return {nullptr, nullptr, free_block, c10::Device(c10::DeviceType::CPU)};
    void* block = bytes < kSmall_bytes
                      ? std::aligned_alloc(Arena::kAlignment_bytes, round_up(bytes))
                      : arena().allocate(bytes);
    if (block == nullptr) {
      throw RunError(ReasonCode::kOomHost,
                     "the host has no memory for a tensor of " + std::to_string(bytes) + " bytes");
    }
    return {block, block, free_block, c10::Device(c10::DeviceType::CPU)};
  }

  static size_t round_up(size_t bytes) {
    return (bytes + Arena::kAlignment_bytes - 1) / Arena::kAlignment_bytes *
           Arena::kAlignment_bytes;
  }

  static void free_block(void* block) {
    if (block == nullptr) return;
    if (arena().owns(block)) {
      arena().free(block);
    } else {
      std::free(block);
    }
  }
};

}  // namespace

void install_host_memory() {
  static const bool installed = [] {
    static ArenaAllocator allocator;
    c10::SetCPUAllocator(&allocator, /*priority=*/1);
    mallopt(M_MMAP_THRESHOLD, kLargestMmapThreshold_bytes);
    mallopt(M_TRIM_THRESHOLD, -1);
    return true;
  }();
  (void)installed;
}

HostMemoryAhead::HostMemoryAhead(int64_t bytes, int threads)
    : bytes_(static_cast<size_t>(std::max<int64_t>(bytes, 0))) {
  if (bytes_ > 0) begin_ = arena().commit(bytes_);
  if (begin_ == nullptr) return;
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { take(); });
}

HostMemoryAhead::~HostMemoryAhead() {
  for (std::thread& thread : threads_) thread.join();
}

void HostMemoryAhead::take() {
#ifdef MADV_POPULATE_WRITE
  for (size_t at = next_.fetch_add(kTakenBytes); at < bytes_; at = next_.fetch_add(kTakenBytes)) {
    if (madvise(begin_ + at, std::min(kTakenBytes, bytes_ - at), MADV_POPULATE_WRITE) != 0) return;
  }
#endif
}

HostMemoryStatistics host_memory_statistics() {
  return {static_cast<int64_t>(arena().allocated_bytes()),
          static_cast<int64_t>(arena().peak_allocated_bytes()),
          static_cast<int64_t>(arena().used_bytes())};
}

void reset_host_memory_peak() {
  arena().reset_peak();
}

}  // namespace sftbench
