#include "cli/node.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <list>

#include "sftbench/base/clock.h"
#include "sftbench/base/environment.h"
#include "sftbench/base/error.h"
#include "sftbench/cli/app.h"
#include "sftbench/launch/child_process.h"
#include "sftbench/launch/node_launch.h"
#include "sftbench/sweep/interrupt_signals.h"

namespace sftbench {
namespace {

constexpr double kNotYet = std::numeric_limits<double>::infinity();
// After a rank has failed: for the others to agree on the cause and end.
constexpr double kRanksTellSeconds = 20;
constexpr double kRanksEndSeconds = 6;  // between SIGTERM and SIGKILL
constexpr size_t kMostBytes = size_t{16} << 20;

// One byte at a time: what comes behind the line is not this function's.
std::string first_line_of_input() {
  std::string line;
  for (char c = 0; line.size() < kMostBytes;) {
    const ssize_t got = ::read(STDIN_FILENO, &c, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0 || c == '\n') break;
    line += c;
  }
  return line;
}

struct Rank {
  Rank(int its_number, const ProcessSpec& spec) : number(its_number), process(spec) {}

  int number;
  ChildProcess process;
  bool ended = false;
  int status = 0;
};

class Node {
 public:
  explicit Node(const NodeTask& task) {
    const OwnedFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    for (int local = 0; local < task.ranks; ++local) {
      std::vector<std::pair<std::string, std::string>> environment = task.environment;
      const int rank = task.first_rank + local;
      for (const auto& [name, value] : {std::pair("RANK", rank), std::pair("LOCAL_RANK", local),
                                        std::pair("LOCAL_WORLD_SIZE", task.ranks)}) {
        environment.emplace_back(name, std::to_string(value));
      }
      std::vector<std::string> words = {kTetherCommand, own_program()};
      words.insert(words.end(), task.words.begin(), task.words.end());
      ranks_.emplace_back(rank, ProcessSpec{.executable = "/proc/self/exe",
                                            .arguments = std::move(words),
                                            .environment = std::move(environment),
                                            .standard_input = nothing.get(),
                                            .standard_output = STDOUT_FILENO,
                                            .standard_error = STDERR_FILENO,
                                            .inherited_fds = {}});
    }
  }

  int follow(int interrupt_fd) {
    while (!all_ended()) {
      pump(interrupt_fd);
      for (Rank& rank : ranks_) {
        if (!rank.ended && rank.process.ended()) take_end(rank);
      }
      if (steady_seconds() >= act_at_s_) end_all();
    }
    const auto failed = std::find_if(ranks_.begin(), ranks_.end(),
                                     [](const Rank& rank) { return rank.status != 0; });
    return failed == ranks_.end() ? 0 : failed->status;
  }

 private:
  bool all_ended() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
  }

  void pump(int interrupt_fd) {
    std::vector<pollfd> fds = {{asked_ ? -1 : STDIN_FILENO, POLLIN, 0}, {interrupt_fd, POLLIN, 0}};
    for (const Rank& rank : ranks_) {
      if (!rank.ended) fds.push_back({rank.process.pidfd(), POLLIN, 0});
    }
    ::poll(fds.data(), fds.size(), 200);
    std::array<char, 256> ignored;
    const bool input_ends =
        fds[0].revents != 0 && ::read(STDIN_FILENO, ignored.data(), ignored.size()) <= 0;
    signalfd_siginfo signal;
    const bool signaled = fds[1].revents != 0 && ::read(interrupt_fd, &signal, sizeof signal) > 0;
    if (input_ends || signaled) end_all();
  }

  void take_end(Rank& rank) {
    rank.ended = true;
    const int status = rank.process.wait_status();
    rank.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (rank.status == 0 || asked_) return;
    act_at_s_ = std::min(act_at_s_, steady_seconds() + kRanksTellSeconds);
    if (!WIFSIGNALED(status)) return;
    std::fprintf(stderr, "sftbench: rank %d on %s was ended by signal %d (%s)\n", rank.number,
                 host_name().c_str(), WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  }

  void end_all() {
    const int signal = asked_ ? SIGKILL : SIGTERM;
    act_at_s_ = asked_ ? kNotYet : steady_seconds() + kRanksEndSeconds;
    asked_ = true;
    for (Rank& rank : ranks_) {
      if (!rank.ended) rank.process.signal_group(signal);
    }
  }

  std::list<Rank> ranks_;
  double act_at_s_ = kNotYet;
  bool asked_ = false;  // the ranks, to end
};

}  // namespace

int node_for_parent() {
  std::signal(SIGPIPE, SIG_IGN);  // whoever read what is said may be gone
  std::signal(SIGHUP, SIG_IGN);   // of a session that ends; its standard input ends with it
  const InterruptSignals signals;
  std::fprintf(stderr, "%s\n", kNodeIsUp);
  try {
    const NodeTask task = node_task_from_text(first_line_of_input());
    std::filesystem::current_path(task.directory);
    return Node(task).follow(signals.fd());
  } catch (const std::filesystem::filesystem_error& error) {
    std::fprintf(stderr, "sftbench: %s has no folder %s: all hosts need the working directory\n",
                 host_name().c_str(), error.path1().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sftbench %s is what this program starts on each host: %s\n", kNodeCommand,
                 error.what());
  }
  return kUsageExitCode;
}

int tether(char** words) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  ::execvp(words[0], words);
  std::fprintf(stderr, "sftbench: cannot start %s: %s\n", words[0], std::strerror(errno));
  return 127;
}

}  // namespace sftbench
