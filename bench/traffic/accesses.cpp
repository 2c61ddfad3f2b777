// Counts the device memory that own kernels read and write, on the phantom device. The kernels are
// compiled for the host with -fsanitize=thread, which puts a call before each access. Those calls
// are here, in place of the sanitizer's. What a GPU's memory moves are sectors of 32 bytes, and its
// cache keeps what a launch reads or writes and then reads: a sector counts once a launch. "Asked"
// are the bytes of all accesses. When the process ends, a line "PLACE LAUNCHES READ WRITTEN
// ASKED_READ ASKED_WRITTEN" for each kernel is appended to the file that SFTBENCH_TRAFFIC names.
// PLACE is the kernel's address in this library, in hexadecimal digits.
#include <dlfcn.h>

#include <array>
#include <bitset>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "device_memory.h"
#include "ops/cuda/host/runner.h"

namespace sftbench::traffic {
namespace {

enum Direction { kRead, kWrite };

// The phantom device's blocks of memory begin at borders of such regions.
constexpr uintptr_t kRegionBytes = uintptr_t{2} << 20, kSectorBytes = 32;

struct Region {
  uintptr_t number = 0;
  bool on_device = false;
  std::bitset<kRegionBytes / kSectorBytes> sectors[2];
};

struct Sum {
  int64_t launches = 0;
  int64_t moved_bytes[2] = {}, asked_bytes[2] = {};
};

// What one launch has touched.
class Launch {
 public:
  void access(uintptr_t address, uintptr_t bytes, Direction direction) {
    Region& region = region_of(address);
    if (!region.on_device) return;
    asked_bytes_[direction] += static_cast<int64_t>(bytes);
    const uintptr_t last = (address + bytes - 1) / kSectorBytes;
    for (uintptr_t sector = address / kSectorBytes; sector <= last; ++sector) {
      auto& sectors = region_of(sector * kSectorBytes).sectors;
      const uintptr_t place = sector % kSectors;
      if (direction == kWrite || !sectors[kWrite][place]) sectors[direction].set(place);
    }
  }

  void add_to(Sum& sum) const {
    ++sum.launches;
    for (const Direction direction : {kRead, kWrite}) {
      sum.asked_bytes[direction] += asked_bytes_[direction];
      for (const auto& [number, region] : regions_) {
        sum.moved_bytes[direction] +=
            static_cast<int64_t>(region->sectors[direction].count() * kSectorBytes);
      }
    }
  }

 private:
  static constexpr uintptr_t kSectors = kRegionBytes / kSectorBytes;

  Region& region_of(uintptr_t address) {
    const uintptr_t number = address / kRegionBytes;
    Region*& recent = recent_[number % recent_.size()];
    if (recent == nullptr || recent->number != number) recent = &find(number);
    return *recent;
  }

  Region& find(uintptr_t number) {
    std::unique_ptr<Region>& region = regions_[number];
    if (region == nullptr) {
      region = std::make_unique<Region>();
      region->number = number;
      region->on_device = is_on_device(reinterpret_cast<const void*>(number * kRegionBytes));
    }
    return *region;
  }

  std::unordered_map<uintptr_t, std::unique_ptr<Region>> regions_;
  std::array<Region*, 64> recent_ = {};
  int64_t asked_bytes_[2] = {};
};

thread_local Launch* current = nullptr;

class Kernels {
 public:
  void add(const void* kernel, const Launch& launch) {
    const std::lock_guard lock(mutex_);
    launch.add_to(sums_[kernel]);
  }

  ~Kernels() {
    const char* path = std::getenv("SFTBENCH_TRAFFIC");
    std::FILE* file = path != nullptr ? std::fopen(path, "a") : nullptr;
    if (file == nullptr) return;
    for (const auto& [kernel, sum] : sums_) {
      Dl_info library = {};
      dladdr(kernel, &library);
      const auto place =
          reinterpret_cast<uintptr_t>(kernel) - reinterpret_cast<uintptr_t>(library.dli_fbase);
      std::fprintf(file, "%lx %ld %ld %ld %ld %ld\n", place, sum.launches, sum.moved_bytes[kRead],
                   sum.moved_bytes[kWrite], sum.asked_bytes[kRead], sum.asked_bytes[kWrite]);
    }
    std::fclose(file);
  }

 private:
  std::mutex mutex_;
  std::map<const void*, Sum> sums_;
};

void count(const void* kernel, const std::function<void()>& run) {
  static Kernels kernels;
  Launch launch;
  current = &launch;
  run();
  current = nullptr;
  kernels.add(kernel, launch);
}

const bool counts = [] {
  ops::host::settings().around = count;
  return true;
}();

void access(const void* address, uintptr_t bytes, Direction direction) {
  if (current != nullptr) current->access(reinterpret_cast<uintptr_t>(address), bytes, direction);
}

}  // namespace
}  // namespace sftbench::traffic

// The names that GCC calls.
#define SFTBENCH_ACCESS(name, bytes, direction)                              \
  void __tsan_##name(void* address) {                                        \
    sftbench::traffic::access(address, bytes, sftbench::traffic::direction); \
  }
#define SFTBENCH_ACCESSES(bytes)                       \
  SFTBENCH_ACCESS(read##bytes, bytes, kRead)           \
  SFTBENCH_ACCESS(write##bytes, bytes, kWrite)         \
  SFTBENCH_ACCESS(unaligned_read##bytes, bytes, kRead) \
  SFTBENCH_ACCESS(unaligned_write##bytes, bytes, kWrite)

extern "C" {
SFTBENCH_ACCESSES(1)
SFTBENCH_ACCESSES(2)
SFTBENCH_ACCESSES(4)
SFTBENCH_ACCESSES(8)
SFTBENCH_ACCESSES(16)
void __tsan_read_range(void* address, size_t bytes) {
  sftbench::traffic::access(address, bytes, sftbench::traffic::kRead);
}
void __tsan_write_range(void* address, size_t bytes) {
  sftbench::traffic::access(address, bytes, sftbench::traffic::kWrite);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}

// Atomic operations are of the host's own reference counts.
uint8_t __tsan_atomic8_load(const volatile uint8_t* address, int) {
  return __atomic_load_n(address, __ATOMIC_SEQ_CST);
}
uint32_t __tsan_atomic32_load(const volatile uint32_t* address, int) {
  return __atomic_load_n(address, __ATOMIC_SEQ_CST);
}
uint32_t __tsan_atomic32_fetch_add(volatile uint32_t* address, uint32_t value, int) {
  return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);
}
uint64_t __tsan_atomic64_load(const volatile uint64_t* address, int) {
  return __atomic_load_n(address, __ATOMIC_SEQ_CST);
}
void __tsan_atomic64_store(volatile uint64_t* address, uint64_t value, int) {
  __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
}
uint64_t __tsan_atomic64_fetch_add(volatile uint64_t* address, uint64_t value, int) {
  return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);
}
uint64_t __tsan_atomic64_fetch_sub(volatile uint64_t* address, uint64_t value, int) {
  return __atomic_fetch_sub(address, value, __ATOMIC_SEQ_CST);
}
}
