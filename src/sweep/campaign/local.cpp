// Workers as processes of this machine, each with cores and GPUs of its own.
#include <fcntl.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <ostream>

#include "campaign/worker_status.h"
#include "sftbench/base/command_text.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/shared_file.h"
#include "sftbench/base/text.h"
#include "sftbench/campaign/engines.h"
#include "sftbench/launch/child_process.h"
#include "sftbench/launch/cores.h"
#include "sftbench/launch/node_launch.h"
#include "sftbench/measure/nvml.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

struct LocalWorker {
  int number = 0;
  std::vector<int> cores;
  std::vector<std::string> gpus;  // UUIDs
  fs::path log;
  int restarts = 0;
  std::unique_ptr<ChildProcess> process;  // null: it has ended
};

// The i-th of `parts` parts of a list.
template <typename Item>
std::vector<Item> part(const std::vector<Item>& items, size_t i, size_t parts) {
  const auto at = [&](size_t index) {
    return items.begin() + static_cast<std::ptrdiff_t>(items.size() * index / parts);
  };
  return {at(i), at(i + 1)};
}

int status_of(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

// Of two workers: interrupted, usage, any failure, cells that remain, all well.
int worse(int a, int b) {
  for (const int status : {kInterruptedStatus, kUsageStatus}) {
    if (a == status || b == status) return status;
  }
  const auto is_failure = [](int status) { return status != 0 && status != kRemainsStatus; };
  if (is_failure(a) || is_failure(b)) return kFailedStatus;
  return std::max(a, b);
}

class LocalEngine : public CampaignEngine {
 public:
  LocalEngine(int interrupt_fd, CampaignLog log)
      : interrupt_fd_(interrupt_fd), log_(std::move(log)) {}

  bool waits_for_workers() const override { return true; }

  std::string default_program() const override {
    return fs::read_symlink("/proc/self/exe").string();
  }

  int start(const CampaignPlan& plan, std::ostream& out) override {
    const std::vector<std::string> words = worker_words(plan, {});
    program_ = words.front();
    arguments_.assign(words.begin() + 1, words.end());
    environment_.assign(plan.environment.begin(), plan.environment.end());
    hide_secrets(arguments_, environment_);
    // This program ends when the one that waits for it is killed. Of another nothing is known. The
    // tether takes its own words off, so that a hidden word keeps its number.
    if (program_ == default_program())
      arguments_.insert(arguments_.begin(), {kTetherCommand, program_});
    const fs::path folder = fs::path(plan.output) / "workers";
    fs::create_directories(folder);
    share_machine(plan, folder);
    out << counted(std::ssize(workers_), "worker") << ", logs in " << folder.string() << std::endl;
    for (LocalWorker& worker : workers_) start_one(worker);
    int status = 0;
    while (running() > 0) {
      wait();
      for (LocalWorker& worker : workers_) {
        if (worker.process && worker.process->ended()) status = worse(status, end_of(worker));
      }
    }
    return interruptions_ > 0 ? kInterruptedStatus : status;
  }

 private:
  // All groups have the same workers here: what differs is the machine that they are on.
  void share_machine(const CampaignPlan& plan, const fs::path& folder) {
    int64_t count = 1;
    for (const WorkerGroup& group : plan.groups) count = std::max(count, group.workers);
    const std::vector<int> cores = by_neighborhood(affinity_cores());
    const std::unique_ptr<Nvml> nvml = Nvml::load();
    std::vector<std::string> gpus;
    if (nvml) {
      for (const GpuIdentity& gpu : nvml->gpus()) gpus.push_back(gpu.uuid);
    }
    const auto parts = static_cast<size_t>(count);
    if (!plan.simulated) check_shares(plan, parts, cores.size(), gpus.size());
    for (size_t i = 0; i < parts; ++i) {
      LocalWorker worker;
      worker.number = static_cast<int>(i) + 1;
      worker.log = folder / (std::to_string(i + 1) + ".log");
      if (!plan.simulated) worker.cores = part(cores, i, parts);
      worker.gpus = part(gpus, i, parts);
      workers_.push_back(std::move(worker));
    }
  }

  void check_shares(const CampaignPlan& plan, size_t workers, size_t cores, size_t gpus) const {
    if (workers > cores) {
      refuse("found " + std::to_string(workers),
             "at most " + std::to_string(cores) + ", as many as this process has cores");
    }
    const auto gpus_each = static_cast<int64_t>(gpus / workers);
    size_t out_of_reach = 0;
    for (const WorkerGroup& group : plan.groups) {
      const bool fits = group.need.nodes == 1 && group.need.gpus_per_node <= gpus_each;
      if (fits) continue;
      ++out_of_reach;
      const int64_t cells = std::ssize(group.cells);
      log_.warn(counted(cells, "cell needs ", "cells need ") + to_string(group.need) +
                ", and a worker here has 1 node with " + counted(gpus_each, "GPU") +
                (cells == 1 ? ": it stays open" : ": they stay open"));
    }
    if (out_of_reach == plan.groups.size()) {
      refuse("no cell can be measured by " + std::to_string(workers) +
                 " on this machine, which has " + counted(static_cast<int64_t>(gpus), "GPU"),
             "another engine, or cells for these devices");
    }
  }

  [[noreturn]] static void refuse(std::string message, std::string expected) {
    throw InputError({{{}, 0, "--workers", std::move(message), std::move(expected), {}}});
  }

  void start_one(LocalWorker& worker) {
    const OwnedFd log = open_to_append(worker.log, "write the worker's log");
    const OwnedFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    auto environment = environment_;
    environment.emplace_back("CUDA_VISIBLE_DEVICES", join(worker.gpus, ","));
    // What it starts inherits them: this process waits, and takes them back.
    const std::vector<int> all = affinity_cores();
    keep_to_cores(worker.cores);
    worker.process =
        std::make_unique<ChildProcess>(ProcessSpec{.executable = program_,
                                                   .arguments = arguments_,
                                                   .environment = std::move(environment),
                                                   .standard_input = nothing.get(),
                                                   .standard_output = log.get(),
                                                   .inherited_fds = {}});
    keep_to_cores(all);
  }

  size_t running() const {
    return static_cast<size_t>(
        std::count_if(workers_.begin(), workers_.end(),
                      [](const LocalWorker& worker) { return worker.process != nullptr; }));
  }

  void wait() {
    std::vector<pollfd> fds = {{interrupt_fd_, POLLIN, 0}};
    bool all_watched = true;
    for (const LocalWorker& worker : workers_) {
      if (!worker.process) continue;
      fds.push_back({worker.process->pidfd(), POLLIN, 0});
      all_watched &= worker.process->pidfd() >= 0;
    }
    constexpr int kLookAgainMs = 100;  // at Linux before 5.3
    ::poll(fds.data(), fds.size(), all_watched ? -1 : kLookAgainMs);
    signalfd_siginfo signal;
    if (interrupt_fd_ < 0 || ::read(interrupt_fd_, &signal, sizeof signal) <= 0) return;
    ++interruptions_;
    for (const LocalWorker& worker : workers_) {
      if (worker.process) worker.process->signal_group(SIGTERM);
    }
  }

  // Takes note of the end, and starts the worker again where it was lost.
  int end_of(LocalWorker& worker) {
    const int status = status_of(worker.process->wait_status());
    worker.process.reset();
    const std::string name = "worker " + std::to_string(worker.number);
    const bool lost = status > 128 && status != kInterruptedStatus;
    if (lost && interruptions_ == 0 && worker.restarts < kMostRestarts) {
      ++worker.restarts;
      log_.warn(name + " was lost (status " + std::to_string(status) + "), and starts again");
      start_one(worker);
      return 0;
    }
    log_.info(name + " has ended with status " + std::to_string(status));
    return status;
  }

  int interrupt_fd_;
  CampaignLog log_;
  std::string program_;
  std::vector<std::string> arguments_;
  std::vector<std::pair<std::string, std::string>> environment_;
  std::vector<LocalWorker> workers_;
  int interruptions_ = 0;
};

}  // namespace

std::unique_ptr<CampaignEngine> make_local_engine(int interrupt_fd, CampaignLog log) {
  return std::make_unique<LocalEngine>(interrupt_fd, std::move(log));
}

}  // namespace sftbench
