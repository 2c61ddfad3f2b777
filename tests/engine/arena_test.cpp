#include "engine/arena.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "engine/host_memory.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace SFTBENCH_FILE {

constexpr size_t kMiB = size_t{1} << 20;

TEST(Arena, BlocksAreAlignedAndDoNotOverlap) {
  Arena arena(64 * kMiB);
  std::vector<std::pair<unsigned char*, size_t>> blocks;
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    if (!blocks.empty() && random() % 2 == 0) {
      std::swap(blocks[random() % blocks.size()], blocks.back());
      const auto [block, bytes] = blocks.back();
      for (size_t i = 0; i < bytes; i += 97) ASSERT_EQ(block[i], static_cast<unsigned char>(bytes));
      arena.free(block);
      blocks.pop_back();
    } else {
      const size_t bytes = 1 + random() % 40000;
      auto* block = static_cast<unsigned char*>(arena.allocate(bytes));
      ASSERT_NE(block, nullptr);
      ASSERT_EQ(reinterpret_cast<uintptr_t>(block) % Arena::kAlignment_bytes, 0u);
      std::memset(block, static_cast<int>(bytes), bytes);
      blocks.emplace_back(block, bytes);
    }
  }
  for (const auto& [block, bytes] : blocks) arena.free(block);
  EXPECT_EQ(arena.allocated_bytes(), 0u);
}

TEST(Arena, ReusesWhatWasFreedAndCoalescesNeighbors) {
  Arena arena(64 * kMiB);
  void* a = arena.allocate(kMiB);
  void* b = arena.allocate(kMiB);
  void* c = arena.allocate(kMiB);
  void* keeps_the_top = arena.allocate(64);
  const size_t used = arena.used_bytes();
  arena.free(a);
  arena.free(c);
  arena.free(b);
  EXPECT_EQ(arena.allocate(3 * kMiB), a) << "three neighbours became one hole";
  EXPECT_EQ(arena.used_bytes(), used);
  arena.free(keeps_the_top);
}

TEST(Arena, TakesTheLowestHoleThatFits) {
  Arena arena(64 * kMiB);
  void* low = arena.allocate(2 * kMiB);
  void* wall = arena.allocate(64);
  void* high = arena.allocate(kMiB);
  void* top = arena.allocate(64);
  arena.free(low);
  arena.free(high);
  EXPECT_EQ(arena.allocate(kMiB), low);
  arena.free(wall);
  arena.free(top);
}

TEST(Arena, CountsThePeakAndForgetsItWhenAsked) {
  Arena arena(64 * kMiB);
  void* a = arena.allocate(4 * kMiB);
  arena.free(arena.allocate(4 * kMiB));
  EXPECT_EQ(arena.allocated_bytes(), 4 * kMiB);
  EXPECT_EQ(arena.peak_allocated_bytes(), 8 * kMiB);
  arena.reset_peak();
  EXPECT_EQ(arena.peak_allocated_bytes(), 4 * kMiB);
  arena.free(a);
}

TEST(Arena, ReturnsNullWhenItIsFull) {
  Arena arena(4 * kMiB);
  EXPECT_EQ(arena.allocate(5 * kMiB), nullptr);
  EXPECT_NE(arena.allocate(4 * kMiB), nullptr);
  EXPECT_EQ(arena.allocate(64), nullptr);
}

TEST(Arena, ServesThreadsAtOnce) {
  Arena arena(64 * kMiB);
  const auto work = [&arena](unsigned char mark) {
    for (int i = 0; i < 2000; ++i) {
      auto* block = static_cast<unsigned char*>(arena.allocate(4096));
      std::memset(block, mark, 4096);
      ASSERT_EQ(block[4095], mark);
      arena.free(block);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned char mark = 1; mark <= 4; ++mark) threads.emplace_back(work, mark);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(arena.allocated_bytes(), 0u);
}

TEST(HostMemory, HoldsTheTensorsOfLibtorch) {
  install_host_memory();
  const int64_t before = host_memory_statistics().allocated_bytes;
  torch::Tensor tensor = torch::ones({1 << 20});
  EXPECT_EQ(host_memory_statistics().allocated_bytes - before, 4 << 20);
  tensor.resize_({1 << 21});
  EXPECT_EQ(host_memory_statistics().allocated_bytes - before, 8 << 20);
  EXPECT_EQ(tensor[1 << 19].item<float>(), 1.0f) << "growing keeps what was there";
  tensor.reset();
  EXPECT_EQ(host_memory_statistics().allocated_bytes, before);
  EXPECT_EQ(torch::empty({0}).numel(), 0);
}

// Whether the kernel has taken the page of `address`.
bool is_there(const void* address) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  unsigned char there = 0;
  void* begin = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(address) / page * page);
  EXPECT_EQ(mincore(begin, page, &there), 0);
  return (there & 1) != 0;
}

TEST(HostMemory, PagesThatAreTakenAheadAreThereBeforeTheyAreWritten) {
#ifdef MADV_POPULATE_WRITE
  void* const page =
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const bool known = madvise(page, 4096, MADV_POPULATE_WRITE) == 0;
  munmap(page, 4096);
  if (!known) GTEST_SKIP() << "the kernel is older than Linux 5.14";
#endif
  install_host_memory();
  constexpr int64_t kBytes = int64_t{64} << 20;
  const int64_t used = host_memory_statistics().arena_bytes;
  const auto last = [](const torch::Tensor& tensor) {
    return static_cast<const char*>(tensor.data_ptr()) + tensor.nbytes() - 1;
  };
  // No block that was given back is as large.
  const torch::Tensor first = torch::empty({used + kBytes}, torch::kUInt8);
  EXPECT_FALSE(is_there(last(first)));
  { const HostMemoryAhead ahead(host_memory_statistics().arena_bytes + used + 3 * kBytes, 2); }
  EXPECT_TRUE(is_there(last(first)));
  const torch::Tensor second = torch::empty({used + 2 * kBytes}, torch::kUInt8);
  EXPECT_TRUE(is_there(last(second)));
  const HostMemoryAhead nothing(0, 2);
}

TEST(HostMemory, FindsTheSamePagesAgain) {
  install_host_memory();
  torch::Tensor first = torch::ones({1 << 20});
  const void* address = first.data_ptr();
  first.reset();
  EXPECT_EQ(torch::empty({1 << 20}).data_ptr(), address);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
