// A contiguous range of memory that grows at its end and never shrinks; blocks are taken from it
// and given back. Address-ordered first fit with immediate coalescing. Thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <unordered_map>

namespace sftbench {

class Arena {
 public:
  static constexpr size_t kAlignment_bytes = 64;

  // Reserves (does not use) `capacity_bytes` of addresses.
  explicit Arena(size_t capacity_bytes);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // A block aligned to kAlignment_bytes, content undefined; null when the kernel gives no more
  // memory.
  void* allocate(size_t bytes);
  // REQUIRES: `block` came from allocate() and was not given back.
  void free(void* block);

  // Makes the first `bytes` readable and writable, without taking pages for them. Null when the
  // kernel gives no more memory.
  std::byte* commit(size_t bytes);

  bool owns(const void* block) const { return block >= base_ && block < base_ + capacity_bytes_; }

  size_t allocated_bytes() const;
  size_t peak_allocated_bytes() const;
  size_t used_bytes() const;  // from the arena's begin to the highest block that ever was
  void reset_peak();

 private:
  bool grow_to(size_t end_bytes);

  mutable std::mutex mutex_;
  std::byte* base_ = nullptr;
  size_t capacity_bytes_ = 0;
  size_t committed_bytes_ = 0;               // readable and writable
  size_t top_bytes_ = 0;                     // end of the highest block in use
  size_t high_water_bytes_ = 0;              // the largest top there was
  std::map<size_t, size_t> free_;            // offset -> bytes, below top_bytes_, never adjacent
  std::unordered_map<size_t, size_t> used_;  // offset -> bytes
  size_t allocated_bytes_ = 0;
  size_t peak_allocated_bytes_ = 0;
};

}  // namespace sftbench
