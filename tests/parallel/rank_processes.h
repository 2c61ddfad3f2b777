// Runs a function as N processes, as the ranks of one job would run, inside of a GoogleTest test:
//
//   run_ranks({.ranks = 3}, [](RankGroup& group) { EXPECT_EQ(group.world_size(), 3); });
//
// What fails in a process fails the test, with the rank's number; so does an exception that leaves
// the function, a crash, and a process that has not ended by the deadline. Whatever happens, no
// process is left when run_ranks returns, or when the test dies itself. A process that ends early
// is told to the others as the rank group's failure, as the program's own control plane would.
#pragma once

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "parallel/fork_ranks.h"
#include "parallel/gloo_communicator.h"
#include "sftbench/base/json.h"
#include "sftbench/base/torch.h"
#include "test_device.h"

namespace sftbench {

struct RankProcessOptions {
  int ranks = 2;
  int nodes = 1;  // blocks of ranks / nodes
  double communication_timeout_s = 60;
  double deadline_s = 60;
  std::set<int> may_die = {};  // ranks whose end by a signal is what the test is about
};

using RankFunction = std::function<void(RankGroup&)>;

// Gloo connects ranks on CPUs, NCCL those on GPUs, which every build for GPUs has.
inline bool ranks_can_connect() {
  return test_device().is_cuda() || has_gloo();
}

// The device of this process's rank.
inline torch::Device& rank_device() {
  static torch::Device device = torch::kCPU;
  return device;
}

class RankProcesses {
 public:
  RankProcesses(const RankProcessOptions& options, const RankFunction& function)
      : options_(options), function_(function) {
    std::string name = ::testing::TempDir() + "ranks.XXXXXX";
    folder_ = ::mkdtemp(name.data());
    for (int rank = 0; rank < options.ranks; ++rank) {
      ranks_.push_back({.rank = rank,
                        .local_rank = rank % local_size(),
                        .node = rank / local_size(),
                        .host = host_of(rank / local_size())});
    }
  }

  ~RankProcesses() {
    for (Process& process : processes_) end(process);
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  void run() {
    for (int rank = 0; rank < options_.ranks; ++rank) start(rank);
    const double end_s = steady_seconds() + options_.deadline_s;
    while (std::any_of(processes_.begin(), processes_.end(), is_open)) {
      if (steady_seconds() > end_s) return overdue();
      read_reports();
    }
  }

 private:
  struct Process {
    int rank = 0;
    pid_t pid = 0;
    int report = -1;  // read end of a pipe; closed when the process has ended
    std::string text;
  };

  // Each node has GPUs of its own.
  static std::string host_of(int node) {
    return test_device().is_cuda() ? "node" + std::to_string(node) : "localhost";
  }

  static bool is_open(const Process& process) { return process.report >= 0; }

  int local_size() const { return options_.ranks / options_.nodes; }

  void start(int rank) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe(ends.data()), 0);
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);  // it was too late to be told
      be_rank(rank, ends[1]);
    }
    ::close(ends[1]);
    processes_.push_back({rank, pid, ends[0], {}});
  }

  [[noreturn]] void be_rank(int rank, int report) {
    // As in the program's ranks: Gloo may write to a rank that has just ended.
    ::signal(SIGPIPE, SIG_IGN);
    // A forked process has none of the threads that the OpenMP runtime believes it has.
    torch::set_num_threads(1);
    ::testing::TestPartResultArray results;
    try {
      const ::testing::ScopedFakeTestPartResultReporter intercept(
          ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ALL_THREADS, &results);
      FileRankGroup group(folder_, place_of(rank), ranks_);
      take_device(group.place().local_rank);
      try {
        function_(group);
      } catch (const std::exception& error) {
        ADD_FAILURE() << "left by an exception: " << error.what();
      }
    } catch (...) {
      ::_exit(1);
    }
    Json failures = Json::array();
    for (int i = 0; i < results.size(); ++i) {
      const ::testing::TestPartResult& result = results.GetTestPartResult(i);
      if (!result.failed()) continue;
      failures.push_back({{"file", result.file_name() == nullptr ? "?" : result.file_name()},
                          {"line", result.line_number()},
                          {"message", result.message()}});
    }
    const std::string text = failures.dump(-1, ' ', false, Json::error_handler_t::replace);
    for (size_t sent = 0; sent < text.size();) {
      const ssize_t count = ::write(report, text.data() + sent, text.size() - sent);
      if (count <= 0) ::_exit(1);
      sent += static_cast<size_t>(count);
    }
    ::_exit(0);
  }

  static void take_device(int local_rank) {
    if (!test_device().is_cuda()) return;
    const auto* devices = c10::impl::getDeviceGuardImpl(torch::kCUDA);
    const int index = local_rank % std::max(1, static_cast<int>(devices->deviceCount()));
    rank_device() = {torch::kCUDA, static_cast<c10::DeviceIndex>(index)};
    devices->setDevice(rank_device());
  }

  RankPlace place_of(int rank) const {
    RankPlace place;
    place.rank = rank;
    place.world_size = options_.ranks;
    place.local_rank = rank % local_size();
    place.local_size = local_size();
    place.node = rank / local_size();
    place.nodes = options_.nodes;
    place.communication_timeout_s = options_.communication_timeout_s;
    return place;
  }

  void read_reports() {
    std::vector<pollfd> ends;
    for (const Process& process : processes_) ends.push_back({process.report, POLLIN, 0});
    if (::poll(ends.data(), ends.size(), 100) <= 0) return;
    for (size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].revents == 0) continue;
      std::array<char, 4096> buffer{};
      const ssize_t count = ::read(processes_[i].report, buffer.data(), buffer.size());
      if (count > 0) {
        processes_[i].text.append(buffer.data(), static_cast<size_t>(count));
      } else {
        ended(processes_[i]);
      }
    }
  }

  void ended(Process& process) {
    const std::string who =
        "rank " + std::to_string(process.rank) + " of " + std::to_string(options_.ranks);
    const int status = reap(process);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
      for (const Json& failure : Json::parse(process.text)) {
        ADD_FAILURE_AT(failure["file"].get<std::string>().c_str(), failure["line"].get<int>())
            << who << ": " << failure["message"].get<std::string>();
      }
      return;
    }
    const std::string how = WIFSIGNALED(status)
                                ? "was ended by signal " + std::to_string(WTERMSIG(status))
                                : "exited with " + std::to_string(WEXITSTATUS(status));
    FileRankGroup::report(folder_, {process.rank, ReasonCode::kKilled, how, {}});
    if (options_.may_die.count(process.rank) == 0) ADD_FAILURE() << who << " " << how;
  }

  void overdue() {
    for (Process& process : processes_) {
      if (!is_open(process)) continue;
      ADD_FAILURE() << "rank " << process.rank << " of " << options_.ranks
                    << " has not ended within " << options_.deadline_s << " s";
      end(process);
    }
  }

  static void end(Process& process) {
    if (!is_open(process)) return;
    ::kill(process.pid, SIGKILL);
    reap(process);
  }

  static int reap(Process& process) {
    int status = 0;
    ::waitpid(process.pid, &status, 0);
    ::close(process.report);
    process.report = -1;
    return status;
  }

  const RankProcessOptions options_;
  const RankFunction& function_;
  std::filesystem::path folder_;
  std::vector<RankInfo> ranks_;
  std::vector<Process> processes_;
};

inline void run_ranks(const RankProcessOptions& options, const RankFunction& function) {
  if (!ranks_can_connect()) GTEST_SKIP() << "this build has no Gloo for ranks on CPUs";
  RankProcesses(options, function).run();
}

}  // namespace sftbench
