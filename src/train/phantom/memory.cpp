#include "phantom/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "phantom/settings.h"

namespace sftbench::phantom {
namespace {

// Pages come when they are touched, zeroed, and no swap stands behind them.
void* addresses(size_t bytes, int protection) {
  void* const mapped = ::mmap(nullptr, bytes + kGranularity, protection,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t aligned = (start + kGranularity - 1) / kGranularity * kGranularity;
  if (aligned != start) ::munmap(mapped, aligned - start);
  const uintptr_t end = aligned + bytes;
  ::munmap(reinterpret_cast<void*>(end), start + bytes + kGranularity - end);
  return reinterpret_cast<void*>(aligned);
}

}  // namespace

bool Memory::take(size_t bytes, int device) {
  used_.resize(static_cast<size_t>(settings().count));
  size_t& used = used_[static_cast<size_t>(device)];
  if (used + bytes > static_cast<size_t>(settings().memory_bytes)) return false;
  used += bytes;
  return true;
}

void* Memory::allocate(size_t bytes, int device) {
  const std::lock_guard lock(mutex_);
  const size_t taken = rounded(bytes);
  if (!take(taken, device)) return nullptr;
  void* const address = addresses(taken, PROT_READ | PROT_WRITE);
  if (address != nullptr) {
    blocks_[reinterpret_cast<uintptr_t>(address)] = {taken, device, Kind::kDevice};
  }
  return address;
}

void* Memory::allocate_pinned(size_t bytes) {
  const std::lock_guard lock(mutex_);
  void* const address = addresses(rounded(bytes), PROT_READ | PROT_WRITE);
  if (address != nullptr) {
    blocks_[reinterpret_cast<uintptr_t>(address)] = {rounded(bytes), 0, Kind::kPinned};
  }
  return address;
}

bool Memory::release(void* address) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(reinterpret_cast<uintptr_t>(address));
  if (found == blocks_.end()) return false;
  const Block block = found->second;
  if (block.kind == Kind::kDevice) used_[static_cast<size_t>(block.device)] -= block.bytes;
  blocks_.erase(found);
  return ::munmap(address, block.bytes) == 0;
}

void* Memory::reserve_addresses(size_t bytes) {
  return addresses(rounded(bytes), PROT_NONE);
}

bool Memory::free_addresses(void* address, size_t bytes) {
  return ::munmap(address, rounded(bytes)) == 0;
}

uint64_t Memory::create(size_t bytes, int device) {
  const std::lock_guard lock(mutex_);
  if (!take(rounded(bytes), device)) return 0;
  handles_[next_handle_] = {rounded(bytes), device};
  return next_handle_++;
}

// Memory stays used while it is mapped, even when its handle is gone: the mapping holds it.
bool Memory::destroy(uint64_t handle) {
  const std::lock_guard lock(mutex_);
  return handles_.erase(handle) == 1;
}

bool Memory::map(void* address, size_t bytes, uint64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end() || found->second.bytes < bytes) return false;
  blocks_[reinterpret_cast<uintptr_t>(address)] = {bytes, found->second.device, Kind::kDevice};
  return ::mprotect(address, bytes, PROT_READ | PROT_WRITE) == 0;
}

bool Memory::unmap(void* address, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto start = reinterpret_cast<uintptr_t>(address);
  auto block = blocks_.lower_bound(start);
  while (block != blocks_.end() && block->first < start + bytes) {
    used_[static_cast<size_t>(block->second.device)] -= block->second.bytes;
    block = blocks_.erase(block);
  }
  // A new mapping in place gives the pages back and makes a late access a fault.
  return ::mmap(address, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED,
                -1, 0) != MAP_FAILED;
}

Memory::Contents Memory::contents() const {
  const std::lock_guard lock(mutex_);
  Contents contents;
  for (const auto& [address, block] : blocks_) {
    const auto* const first = reinterpret_cast<const std::byte*>(address);
    contents[address] = {first, first + block.bytes};
  }
  return contents;
}

void Memory::restore(const Contents& contents) {
  const std::lock_guard lock(mutex_);
  for (const auto& [address, block] : blocks_) {
    auto* const first = reinterpret_cast<std::byte*>(address);
    const auto known = contents.find(address);
    if (known == contents.end()) {
      std::memset(first, 0xff, block.bytes);
    } else {
      std::memcpy(first, known->second.data(), std::min(block.bytes, known->second.size()));
    }
  }
}

std::optional<Memory::Block> Memory::find(const void* address) const {
  const std::lock_guard lock(mutex_);
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  auto after = blocks_.upper_bound(wanted);
  if (after == blocks_.begin()) return std::nullopt;
  --after;
  if (wanted >= after->first + after->second.bytes) return std::nullopt;
  return after->second;
}

size_t Memory::used(int device) const {
  const std::lock_guard lock(mutex_);
  return used_.empty() ? 0 : used_[static_cast<size_t>(device)];
}

// Never destroyed: libraries free their memory while the process ends, in any order.
Memory& memory() {
  static auto* const one = new Memory;
  return *one;
}

}  // namespace sftbench::phantom
