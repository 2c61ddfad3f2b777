#include "engine/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>
#include <new>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

constexpr size_t kHugePage_bytes = size_t{2} << 20;
constexpr size_t kGrowth_bytes = size_t{32} << 20;

size_t round_up(size_t bytes, size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

}  // namespace

Arena::Arena(size_t capacity_bytes) : capacity_bytes_(round_up(capacity_bytes, kHugePage_bytes)) {
  const size_t reserved = capacity_bytes_ + kHugePage_bytes;
  void* address =
      mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (address == MAP_FAILED) throw std::bad_alloc();
  const auto begin = reinterpret_cast<uintptr_t>(address);
  const uintptr_t aligned = round_up(begin, kHugePage_bytes);
  if (aligned > begin) munmap(address, aligned - begin);
  munmap(reinterpret_cast<void*>(aligned + capacity_bytes_), begin + kHugePage_bytes - aligned);
  base_ = reinterpret_cast<std::byte*>(aligned);
}

Arena::~Arena() {
  munmap(base_, capacity_bytes_);
}

bool Arena::grow_to(size_t end_bytes) {
  if (end_bytes <= committed_bytes_) return true;
  const size_t target = std::min(capacity_bytes_, round_up(end_bytes, kGrowth_bytes));
  if (end_bytes > target) return false;
  std::byte* begin = base_ + committed_bytes_;
  const size_t added = target - committed_bytes_;
  if (mprotect(begin, added, PROT_READ | PROT_WRITE) != 0) return false;
  madvise(begin, added, MADV_HUGEPAGE);  // a hint: without huge pages it is only slower
  committed_bytes_ = target;
  return true;
}

std::byte* Arena::commit(size_t bytes) {
  const std::lock_guard lock(mutex_);
  return grow_to(bytes) ? base_ : nullptr;
}

void* Arena::allocate(size_t bytes) {
  const size_t need = round_up(std::max<size_t>(bytes, 1), kAlignment_bytes);
  const std::lock_guard lock(mutex_);
  auto hole =
      std::find_if(free_.begin(), free_.end(), [&](const auto& f) { return f.second >= need; });
  size_t offset;
  if (hole != free_.end()) {
    offset = hole->first;
    const size_t rest = hole->second - need;
    hole = free_.erase(hole);
    if (rest > 0) free_.emplace_hint(hole, offset + need, rest);
  } else {
    offset = top_bytes_;
    if (!grow_to(offset + need)) return nullptr;
    top_bytes_ = offset + need;
    high_water_bytes_ = std::max(high_water_bytes_, top_bytes_);
  }
  used_.emplace(offset, need);
  allocated_bytes_ += need;
  peak_allocated_bytes_ = std::max(peak_allocated_bytes_, allocated_bytes_);
  return base_ + offset;
}

void Arena::free(void* block) {
  const std::lock_guard lock(mutex_);
  size_t offset = static_cast<size_t>(static_cast<std::byte*>(block) - base_);
  const auto entry = used_.find(offset);
  check(entry != used_.end(), "a freed block was allocated here");
  size_t bytes = entry->second;
  used_.erase(entry);
  allocated_bytes_ -= bytes;

  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
      free_.erase(previous);
    }
  }
  if (offset + bytes == top_bytes_) {
    top_bytes_ = offset;
  } else {
    free_.emplace_hint(next, offset, bytes);
  }
}

size_t Arena::allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return allocated_bytes_;
}

size_t Arena::peak_allocated_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_allocated_bytes_;
}

size_t Arena::used_bytes() const {
  const std::lock_guard lock(mutex_);
  return high_water_bytes_;
}

void Arena::reset_peak() {
  const std::lock_guard lock(mutex_);
  peak_allocated_bytes_ = allocated_bytes_;
}

}  // namespace sftbench
