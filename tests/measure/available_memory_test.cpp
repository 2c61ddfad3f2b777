#include "sftbench/measure/available_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "sftbench/base/file.h"

namespace sftbench {
namespace SFTBENCH_FILE {

namespace fs = std::filesystem;

constexpr int64_t kGiB = int64_t{1} << 30;

// A folder with what the kernel would show of a machine with 24 GiB, 20 of them available.
class AvailableMemoryTest : public testing::Test {
 protected:
  void SetUp() override { meminfo(20, 0); }
  void TearDown() override { fs::remove_all(root_); }

  void file(const std::string& path, const std::string& text) {
    write_file_atomic(root_ / path, text);
  }
  void meminfo(int64_t available_gib, int64_t free_swap_gib) {
    const auto line = [](const char* name, int64_t gib) {
      return std::string(name) + ":  " + std::to_string(gib << 20) + " kB\n";
    };
    file("proc/meminfo", line("MemTotal", 24) + line("MemFree", 3) +
                             line("MemAvailable", available_gib) + line("SwapTotal", 8) +
                             line("SwapFree", free_swap_gib));
  }
  static std::string gib(int64_t count) { return std::to_string(count * kGiB) + "\n"; }

  fs::path root_ = fs::path(testing::TempDir()) / ("available_" + std::to_string(getpid()));
};

TEST_F(AvailableMemoryTest, IsWhatTheKernelSaysOfTheMachineAndItsFreeSwap) {
  EXPECT_EQ(available_memory(root_).bytes, 20 * kGiB);
  EXPECT_EQ(available_memory(root_).limit, "");
  meminfo(20, 5);
  EXPECT_EQ(available_memory(root_).bytes, 25 * kGiB);
}

TEST_F(AvailableMemoryTest, IsWhatTheProcessesOwnGroupLeavesPagesOfFilesCountedAsFree) {
  file("proc/self/cgroup", "0::/jobs/7\n");
  file("sys/fs/cgroup/jobs/7/memory.max", gib(8));
  file("sys/fs/cgroup/jobs/7/memory.current", gib(5));
  file("sys/fs/cgroup/jobs/7/memory.stat",
       "anon 3221225472\nfile 2147483648\ninactive_file 1073741824\nactive_file 1073741824\n"
       "slab_reclaimable 0\n");
  const AvailableMemory available = available_memory(root_);
  EXPECT_EQ(available.bytes, 5 * kGiB);
  EXPECT_EQ(available.limit, "the memory cgroup /jobs/7");
}

TEST_F(AvailableMemoryTest, IsLimitedByAGroupFurtherUp) {
  file("proc/self/cgroup", "0::/jobs/7\n");
  file("sys/fs/cgroup/jobs/7/memory.max", "max\n");
  file("sys/fs/cgroup/jobs/7/memory.current", gib(1));
  file("sys/fs/cgroup/jobs/memory.max", gib(6));
  file("sys/fs/cgroup/jobs/memory.current", gib(2));
  EXPECT_EQ(available_memory(root_).bytes, 4 * kGiB);
  EXPECT_EQ(available_memory(root_).limit, "the memory cgroup /jobs");
}

TEST_F(AvailableMemoryTest, AGroupMaySwapAsFarAsItIsAllowedTo) {
  meminfo(20, 8);
  file("proc/self/cgroup", "0::/jobs\n");
  file("sys/fs/cgroup/jobs/memory.max", gib(8));
  file("sys/fs/cgroup/jobs/memory.current", gib(2));
  EXPECT_EQ(available_memory(root_).bytes, 14 * kGiB) << "no limit of its own";
  file("sys/fs/cgroup/jobs/memory.swap.max", gib(3));
  file("sys/fs/cgroup/jobs/memory.swap.current", gib(1));
  EXPECT_EQ(available_memory(root_).bytes, 8 * kGiB);
  file("sys/fs/cgroup/jobs/memory.swap.max", "max\n");
  EXPECT_EQ(available_memory(root_).bytes, 14 * kGiB);
}

TEST_F(AvailableMemoryTest, KnowsTheFirstVersionOfControlGroups) {
  file("proc/self/cgroup", "9:name=systemd:/\n4:memory:/a/b\n0::/\n");
  file("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", gib(4));
  file("sys/fs/cgroup/memory/a/b/memory.usage_in_bytes", gib(3));
  file("sys/fs/cgroup/memory/a/b/memory.stat",
       "cache 5\ntotal_inactive_file 1073741824\ntotal_active_file 0\n");
  EXPECT_EQ(available_memory(root_).bytes, 2 * kGiB);
  EXPECT_EQ(available_memory(root_).limit, "the memory cgroup /a/b");
  file("sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(available_memory(root_).bytes, 20 * kGiB) << "the kernel's number for: no limit";
}

TEST_F(AvailableMemoryTest, AGroupThatLeavesAsMuchAsTheMachineHasIsNoLimit) {
  file("proc/self/cgroup", "0::/jobs\n");
  file("sys/fs/cgroup/jobs/memory.max", gib(23));
  file("sys/fs/cgroup/jobs/memory.current", gib(3));
  EXPECT_EQ(available_memory(root_).bytes, 20 * kGiB);
  EXPECT_EQ(available_memory(root_).limit, "");
}

TEST_F(AvailableMemoryTest, AGroupThatDoesNotSayWhatItUsesIsNoLimit) {
  file("proc/self/cgroup", "0::/jobs\n");
  file("sys/fs/cgroup/jobs/memory.max", gib(1));
  EXPECT_EQ(available_memory(root_).bytes, 20 * kGiB);
  EXPECT_EQ(available_memory(root_).limit, "");
}

// cgroups(7): hierarchy-ID:controller-list:cgroup-path
TEST_F(AvailableMemoryTest, LinesThatNameNoGroupAreLeftOut) {
  file("proc/self/cgroup", "\nmemory\n4:memory\n");
  EXPECT_TRUE(memory_cgroups(root_).empty());
  file("proc/self/cgroup", "4:memory:/a/b\n");
  std::vector<std::string> names;
  for (const MemoryCgroup& group : memory_cgroups(root_)) names.push_back(group.name);
  EXPECT_EQ(names, (std::vector<std::string>{"/a/b", "/a", "/"}));
}

TEST_F(AvailableMemoryTest, IsThatOfTheMountedGroupInAContainer) {
  file("proc/self/cgroup", "0::/../../host/path\n");
  file("sys/fs/cgroup/memory.max", gib(2));
  file("sys/fs/cgroup/memory.current", gib(1));
  EXPECT_EQ(available_memory(root_).bytes, 1 * kGiB);
}

TEST_F(AvailableMemoryTest, OfThisMachineIsSomethingAndNotMoreThanItHas) {
  const int64_t bytes = available_memory().bytes;
  EXPECT_GT(bytes, 0);
  EXPECT_LT(bytes, int64_t{1} << 50);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
