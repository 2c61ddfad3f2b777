#include "sftbench/measure/proc.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "sftbench/base/clock.h"
#include "sftbench/measure/host_info.h"
#include "sftbench/measure/system_source.h"

namespace sftbench {
namespace SFTBENCH_FILE {

// As /proc/PID/stat of a process that ends between open() and read(): a finished measurement was
// lost to it.
TEST(ProcTest, AFileWhoseReadingFailsIsEmpty) {
  EXPECT_EQ(proc_text("/proc/self/mem"), "") << "nothing is mapped at its beginning";
  EXPECT_EQ(proc_text("/proc/0/stat"), "");
  EXPECT_NE(proc_text("/proc/self/stat"), "");
}

TEST(ProcTest, TicksOfWaitedChildrenAreCountedBehindTheProgramsName) {
  EXPECT_EQ(
      waited_children_ticks("17 (a (b) c) S 1 17 17 0 -1 4194560 900 0 3 0 120 30 7 5 20 0 1 0 99"),
      12);
  EXPECT_EQ(waited_children_ticks(""), 0);  // the process has ended
}

TEST(ProcTest, CpuTimeOfThisProcessIsFinerThanATick) {
  const double before = process_tree_cpu_seconds(getpid());
  const double begin = steady_seconds();
  while (steady_seconds() - begin < 0.002) {
  }
  const double used = process_tree_cpu_seconds(getpid()) - before;
  EXPECT_GT(used, 0);
  EXPECT_LT(used, 0.5);
}

TEST(ProcTest, CpuTimeOfAnEndedChildStaysCounted) {
  const double before = process_tree_cpu_seconds(getpid());
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<unsigned> spin = 0;
    while (process_tree_cpu_seconds(getpid()) < 0.1) ++spin;
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  const double ended = process_tree_cpu_seconds(getpid());
  EXPECT_GE(ended - before, 0.08);  // ticks are 10 ms
  EXPECT_EQ(process_tree_cpu_seconds(child), 0) << "a process that is gone";
  // The time of a child that has ended counts for the process that waited for it, and for no other.
  const pid_t idle = fork();
  if (idle == 0) {
    pause();
    _exit(0);
  }
  EXPECT_LT(process_tree_cpu_seconds(getpid()) - ended, 0.08);
  kill(idle, SIGKILL);
  waitpid(idle, nullptr, 0);
}

TEST(ProcTest, TheHostsCpuTimeIsThatOfUsersAndOfTheSystemInAll) {
  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_DOUBLE_EQ(host_cpu_seconds("cpu  700 20 80 9000 5 6 7 8 9 10\ncpu0 1 2 3\n").value(),
                   800 / ticks);
  EXPECT_FALSE(host_cpu_seconds("intr 700 20 80"));
  EXPECT_FALSE(host_cpu_seconds("cpu  700 20"));
  EXPECT_FALSE(host_cpu_seconds(""));
}

TEST(ProcTest, MemoryPercentIsPsutilsUsedOverTotal) {
  const char* meminfo =
      "MemTotal:       10000 kB\n"
      "MemFree:         3000 kB\n"
      "MemAvailable:    6000 kB\n"
      "Buffers:          500 kB\n"
      "Cached:          2000 kB\n"
      "SwapCached:       777 kB\n"
      "SReclaimable:     250 kB\n";
  EXPECT_DOUBLE_EQ(memory_percent_of_meminfo(meminfo), 42.5);
  EXPECT_DOUBLE_EQ(memory_percent_of_meminfo(""), 0);
}

TEST(ProcTest, KilobyteFieldsAreMatchedByWholeName) {
  EXPECT_EQ(kilobyte_field_bytes("VmHWMx:\t1 kB\nVmHWM:\t  12 kB\n", "VmHWM"), 12 * 1024);
  EXPECT_FALSE(kilobyte_field_bytes("VmRSS: 12 kB\n", "VmHWM").has_value());
  EXPECT_FALSE(kilobyte_field_bytes("VmHWM: lots\n", "VmHWM").has_value());
}

TEST(ProcTest, CpuTimeOfALivingChildCountsForTheTree) {
  const double before = process_tree_cpu_seconds(getpid());
  const pid_t child = fork();
  if (child == 0) {
    std::atomic<unsigned> spin = 0;
    for (;;) ++spin;
  }
  const double begin = steady_seconds();
  double used = 0;
  while (used < 0.2 && steady_seconds() - begin < 30) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    used = process_tree_cpu_seconds(getpid()) - before;
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_GE(used, 0.2);
}

TEST(ProcTest, PeakMemoryGrowsWithWhatWasTouched) {
  constexpr size_t kBytes = size_t{64} << 20;
  const int64_t before = peak_rss_bytes();
  {
    const auto block = std::make_unique<char[]>(kBytes);
    std::memset(block.get(), 1, kBytes);
    EXPECT_EQ(block[kBytes / 2], 1);
  }
  EXPECT_GE(peak_rss_bytes(), before);
  EXPECT_GE(peak_rss_bytes(), static_cast<int64_t>(kBytes));
}

TEST(ProcTest, SchedstatHasWhatAThreadRanAndWhatItWaited) {
  const auto times = schedstat_times("3000000000 500000000 17\n");
  ASSERT_TRUE(times.has_value());
  EXPECT_DOUBLE_EQ(times->ran_s, 3);
  EXPECT_DOUBLE_EQ(times->waited_s, 0.5);
  EXPECT_FALSE(schedstat_times("").has_value());
}

// Until this thread has had so much of processors.
void work(long milliseconds) {
  timespec had{};
  while (had.tv_sec == 0 && had.tv_nsec < milliseconds * 1'000'000) {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &had);
  }
}

bool all_threads_sleep(pid_t process) {
  const std::filesystem::path tasks = "/proc/" + std::to_string(process) + "/task";
  for (const auto& task : std::filesystem::directory_iterator(tasks)) {
    const std::string stat = proc_text((task.path() / "stat").string());
    if (stat.substr(stat.rfind(')'), 3) != ") S") return false;
  }
  return true;
}

// A process with two threads that have worked, and sleep from then on.
TEST(ProcTest, WhatThreadsHadIsCountedOnce) {
  if (proc_text("/proc/self/schedstat").empty()) GTEST_SKIP() << "the kernel does not tell";
  int ready[2] = {};
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    work(50);
    std::thread([&ready] {
      work(100);
      if (write(ready[1], "", 1) != 1) _exit(1);
      pause();
    }).join();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  while (!all_threads_sleep(child)) continue;
  RunQueueClock clock;
  const auto first = clock.read(child);
  const auto second = clock.read(child);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const auto last = clock.read(child);
  close(ready[0]);
  close(ready[1]);
  ASSERT_TRUE(first && second && last);
  EXPECT_GE(first->ran_s, 0.05 + 0.1);
  EXPECT_LT(first->ran_s, 0.05 + 0.1 + 0.05);
  EXPECT_EQ(second->ran_s, first->ran_s);
  EXPECT_EQ(second->waited_s, first->waited_s);
  EXPECT_EQ(last->ran_s, first->ran_s) << "what ended threads had stays counted";
}

// Two threads that spin on one processor each wait for the other half of the time.
TEST(ProcTest, ThreadsThatShareAProcessorWaitForIt) {
  cpu_set_t all;
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  int core = 0;
  while (!CPU_ISSET(core, &all)) ++core;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  RunQueueClock clock;
  const auto before = clock.read(getpid());
  if (!before) GTEST_SKIP() << "the kernel does not count waiting (no schedstat)";
  std::atomic<bool> stop = false;
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      sched_setaffinity(0, sizeof one, &one);
      std::atomic<unsigned> spin = 0;
      while (!stop) ++spin;
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(400));
  const auto during = clock.read(getpid());
  stop = true;
  threads.clear();
  const auto after = clock.read(getpid());
  const double ran_s = during->ran_s - before->ran_s;
  const double waited_s = during->waited_s - before->waited_s;
  EXPECT_GT(waited_s, 0.1);
  EXPECT_GT(waited_s / (ran_s + waited_s), 0.3);
  EXPECT_GE(after->waited_s, during->waited_s) << "what ended threads had stays counted";
  EXPECT_GE(after->ran_s, during->ran_s);
}

// A pipe holds the child until its pages have been counted.
TEST(ProcTest, MemoryOfALivingChildCountsForTheTree) {
  constexpr int64_t kBytes = int64_t{64} << 20;
  const int64_t before = process_tree_resident_bytes(getpid());
  int ready[2] = {};
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::vector<char> touched(static_cast<size_t>(kBytes), 1);
    if (write(ready[1], touched.data(), 1) != 1) _exit(1);
    pause();
  }
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_GE(process_tree_resident_bytes(getpid()), before + kBytes);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_LT(process_tree_resident_bytes(getpid()), before + kBytes);
  close(ready[0]);
  close(ready[1]);
}

TEST(HostInfoTest, ReadsTheFirstMatchingCpuinfoField) {
  const char* cpuinfo =
      "processor\t: 0\nmodel\t\t: 143\nmodel name\t: Xeon 8480\nflags\t\t: fma avx2\n";
  EXPECT_EQ(cpuinfo_field(cpuinfo, "model name"), "Xeon 8480");
  EXPECT_EQ(cpuinfo_field(cpuinfo, "model"), "143");
  EXPECT_EQ(cpuinfo_field(cpuinfo, "bogomips"), "");
}

TEST(HostInfoTest, ThisMachineHasCoresAndMemory) {
  const HostInfo host = read_host_info();
  EXPECT_GE(host.cores, 1);
  EXPECT_GT(host.memory_bytes, 0);
  EXPECT_EQ(host.kernel.rfind("Linux ", 0), 0u);
  char name[256] = {};
  ASSERT_EQ(gethostname(name, sizeof name), 0);
  EXPECT_EQ(host.name, name);
}

TEST(HostInfoTest, CoresAreThoseThatTheProcessMayUse) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(read_host_info().cores, CPU_COUNT(&before));
  CPU_ZERO(&one);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_SET(first, &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const int cores = read_host_info().cores;
  sched_setaffinity(0, sizeof before, &before);
  EXPECT_EQ(cores, 1);
}

TEST(SystemSourceTest, AMachineWithoutGpusGivesCpuAndMemoryOnly) {
  const auto source = make_system_source(nullptr, 0);
  const SystemReading first = source->read();
  const SystemReading second = source->read();
  EXPECT_GE(second.time_s, first.time_s);
  EXPECT_GE(second.cpu_seconds, first.cpu_seconds);
  EXPECT_GT(first.host_memory_percent, 0);
  EXPECT_LT(first.host_memory_percent, 100);
  EXPECT_GT(first.memory_percent, 0);
  EXPECT_LT(first.memory_percent, 100);
  // The process takes a few pages more or less from one reading to the next.
  const auto own = static_cast<double>(process_tree_resident_bytes(getpid()));
  const auto machine = static_cast<double>(read_host_info().memory_bytes);
  EXPECT_NEAR(second.memory_percent, 100 * own / machine, 20 * own / machine);
  EXPECT_TRUE(first.gpus.empty());
}

TEST(SystemSourceTest, MoreGpusThanAreVisibleIsABug) {
  EXPECT_THROW(make_system_source(nullptr, 1), std::logic_error);
}

}  // namespace SFTBENCH_FILE
}  // namespace sftbench
