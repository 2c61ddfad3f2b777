// Device memory that is host memory: addresses that nobody touches cost nothing, so a device of 80
// GiB fits into any machine. Its limits are those of a real device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace sftbench::phantom {

class Memory {
 public:
  enum class Kind { kDevice, kPinned };
  struct Block {
    size_t bytes = 0;
    int device = 0;
    Kind kind = Kind::kDevice;
  };
  struct Handle {  // physical memory that is mapped to addresses later (expandable segments)
    size_t bytes = 0;
    int device = 0;
  };

  // nullptr when the device has not that much left. Zeros, at a border of 2 MiB.
  void* allocate(size_t bytes, int device);
  void* allocate_pinned(size_t bytes);
  // False when no block starts there.
  bool release(void* address);

  // The driver's steps to the same end: addresses first, memory behind them later.
  void* reserve_addresses(size_t bytes);
  bool free_addresses(void* address, size_t bytes);
  // 0 when the device has not that much left.
  uint64_t create(size_t bytes, int device);
  bool destroy(uint64_t handle);
  bool map(void* address, size_t bytes, uint64_t handle);
  bool unmap(void* address, size_t bytes);

  // All bytes of all blocks, and the same bytes again. Blocks that came meanwhile are filled with
  // 0xff: NaN in every floating-point type.
  using Contents = std::map<uintptr_t, std::vector<std::byte>>;
  Contents contents() const;
  void restore(const Contents& contents);

  // The block that an address lies in.
  std::optional<Block> find(const void* address) const;
  size_t used(int device) const;

 private:
  bool take(size_t bytes, int device);

  mutable std::mutex mutex_;
  std::map<uintptr_t, Block> blocks_;
  std::map<uint64_t, Handle> handles_;
  std::vector<size_t> used_;
  uint64_t next_handle_ = 1;
};

Memory& memory();

// What a driver allocates at least: sizes are rounded up to it.
inline constexpr size_t kGranularity = size_t{2} << 20;
inline size_t rounded(size_t bytes) {
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

}  // namespace sftbench::phantom
