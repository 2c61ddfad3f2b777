#include "cli/rank.h"

#include <spdlog/spdlog.h>
#include <sys/prctl.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <thread>

#include "cli/child_side.h"
#include "cli/run_log.h"
#include "sftbench/base/json_text.h"
#include "sftbench/cli/app.h"
#include "sftbench/launch/engine_library.h"
#include "sftbench/launch/rank_reply.h"
#include "sftbench/launch/rank_request.h"
#include "sftbench/plan/classify_error.h"
#include "sftbench/results/measurement.h"

namespace sftbench {
namespace {

std::atomic<bool> asked_to_end = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

void ask_to_end(int) {
  asked_to_end = true;
}

RankFailure failure_of(const ErrorClass& error, int rank) {
  return {rank, error.code, error.message, error.evidence};
}

// Tells the parent where the ranks are as rank 0 hears of it, also while this one trains or hangs.
class WhereaboutsTeller {
 public:
  WhereaboutsTeller(const RankGroup& group, const RankReply& reply)
      : thread_([this, &group, &reply] { tell(group, reply); }) {}
  ~WhereaboutsTeller() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

 private:
  void tell(const RankGroup& group, const RankReply& reply) {
    std::vector<std::string> told;
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, kWhereaboutsPeriod, [this] { return closing_; })) {
      std::vector<std::string> now = group.whereabouts();
      if (now == told) continue;
      reply.whereabouts(now);
      told = std::move(now);
    }
  }

  static constexpr std::chrono::seconds kWhereaboutsPeriod{1};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closing_ = false;
  std::thread thread_;
};

void train_rank(const RankRequest& request, RankGroup& group, const RunLog& log, RankReply& reply) {
  const std::unique_ptr<Engine> engine = load_engine(request.job.device.kind);
  reply.environment(engine->environment());
  limit_memory(request.host_memory_bytes);
  StepLog step_log(log);
  std::optional<WhereaboutsTeller> teller;
  if (group.rank() == 0) teller.emplace(group, reply);
  engine->train_job(request.job, group, {&step_log, &reply}, [] { return asked_to_end.load(); });
  group.leave();
  reply.environment(engine->environment());
}

// Tells the parent how it went. What ends one rank ends all, and they agree on what it was.
void take_part(const RankRequest& request, const RunLog& log, RankReply& reply) {
  const auto fail = [&](const RankFailure& failure) {
    log.line("error", reason_text(failure.code, failure.message, failure.evidence));
    reply.failed(failure);
  };
  std::unique_ptr<RankGroup> group;
  try {
    group = join_ranks(request.place);
  } catch (const std::exception& error) {
    return fail(failure_of(classify_exception(error, request.job), kNoRank));
  }
  const auto end_all = [&](const ErrorClass& error) {
    log.line("ended", reason_text(error.code, error.message, error.evidence));
    fail(group->fail(failure_of(error, request.place.rank)));
  };
  try {
    train_rank(request, *group, log, reply);
    reply.done();
  } catch (const std::exception& error) {
    end_all(classify_exception(error, request.job));
  } catch (...) {
    end_all({ReasonCode::kInternal, "the run ended with an exception of unknown type", {}});
  }
}

}  // namespace

int rank_for_parent() {
  ::prctl(PR_SET_NAME, "sftbench");  // else the name of the link /proc/self/exe
  // Also when this process is stopped and cannot notice that its parent is gone.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGTERM, ask_to_end);
  std::signal(SIGINT, ask_to_end);
  const RunLog log;
  try {
    const RankRequest request = rank_request_from_json(
        unpacked_json(read_standard_input(), "standard input"), "standard input");
    empty_standard_input();
    end_with_parent(request.events_fd);
    prefer_to_be_killed();
    pin_to_cores(request.cpus);
    RankReply reply(request.events_fd, request.control_fd, request.place.rank);
    take_part(request, log, reply);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "sftbench %s is what this program starts for each rank: %s\n",
                 kRankCommand, error.what());
    return kUsageExitCode;
  }
  std::fflush(nullptr);
  std::_Exit(0);  // what libtorch and the driver's libraries do at an exit takes long and can crash
}

}  // namespace sftbench
