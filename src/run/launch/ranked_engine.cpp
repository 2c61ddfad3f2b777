#include "sftbench/launch/ranked_engine.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <deque>
#include <optional>

#include "launch/child_end.h"
#include "launch/child_files.h"
#include "sftbench/base/build_info.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/json_text.h"
#include "sftbench/launch/child_process.h"
#include "sftbench/launch/cores.h"
#include "sftbench/launch/rank_reply.h"
#include "sftbench/launch/rank_request.h"
#include "sftbench/measure/event_json.h"
#include "sftbench/results/store.h"

namespace sftbench {
namespace {

constexpr double kLookSeconds = 0.1;  // at whether the user has interrupted
// After a failure: for the ranks to agree on its cause, and to end once they have.
constexpr double kAgreeSeconds = 3;
constexpr double kEndSeconds = 1;
constexpr double kInterruptSeconds = 3;  // for them to come to their next micro-batch

// One process, what it has said, and how it ended.
struct Rank {
  std::unique_ptr<ChildProcess> process;
  OwnedFd events;
  OwnedFd control;
  std::filesystem::path log;
  std::string unread;
  bool done = false;    // it said so
  bool failed = false;  // it said why
  bool killed = false;  // from here
  bool ended = false;
};

}  // namespace

class RankedEngine::Impl {
 public:
  Impl(const TrainingJob& job, RankedSpec spec) : spec_(std::move(spec)), job_(job) {
    const LocalMeetingPoint meeting_point = open_local_meeting_point();
    const std::vector<CoreShare> shares = share_cores();
    oom_kills_before_ = count_oom_kills();
    const std::string session = random_text();
    const std::string secret = random_text();
    for (int rank = 0; rank < job.device.ranks; ++rank) {
      RankRequest request;
      request.job = job;
      request.place = place(rank, meeting_point, session, secret);
      request.job.device.threads = shares[static_cast<size_t>(rank)].threads;
      request.cpus = shares[static_cast<size_t>(rank)].cores;
      request.host_memory_bytes = spec_.host_memory_bytes / job.device.ranks;
      start(std::move(request));
    }
  }

  void follow(const std::vector<TrainObserver*>& observers,
              const std::function<bool()>& interrupted) {
    for (;;) {
      for (; !events_.empty(); events_.pop_front()) replay(events_.front(), observers);
      if (all_ended()) break;
      if (!asked_ && interrupted()) ask_to_end();
      pump();
    }
    if (asked_ && !complete()) throw RunError(ReasonCode::kKilled, "interrupted");
    if (!causes_.empty()) throw error_of(worst());
  }

  const Json& environment() {
    while (environment_.is_null() && !all_ended()) pump();
    if (environment_.is_null()) environment_ = Json::object();
    return environment_;
  }

  std::vector<int64_t> process_ids() const {
    std::vector<int64_t> ids;
    for (const Rank& rank : ranks_) ids.push_back(rank.process->pid());
    return ids;
  }

 private:
  struct Cause {
    RankFailure failure;
    bool seen = false;  // from here, by how its process ended
  };

  // --- the start ---

  std::vector<CoreShare> share_cores() const {
    const std::vector<int> cores = by_neighborhood(affinity_cores());
    const DevicePlan& device = job_.device;
    if (device.kind == "cpu") return divide_cores(cores, device.ranks, device.threads);
    std::vector<std::vector<int>> near_ranks(static_cast<size_t>(device.ranks));
    for (size_t rank = 0; rank < near_ranks.size() && rank < spec_.gpus.size(); ++rank) {
      near_ranks[rank] = cores_near_gpu(spec_.gpus[rank]);
    }
    return divide_cores_near(near_ranks, cores, device.threads);
  }

  RankPlace place(int rank, const LocalMeetingPoint& meeting_point, const std::string& session,
                  const std::string& secret) const {
    const auto ranks = static_cast<int>(job_.device.ranks);
    return {.rank = rank,
            .world_size = ranks,
            .local_rank = rank,
            .local_size = ranks,
            .port = meeting_point.port,
            .listening_fd = rank == 0 ? meeting_point.socket.get() : -1,
            .session = session,
            .secret = secret,
            .version = version_and_commit(),
            .rendezvous_timeout_s = job_.parallel.timeout_s,
            .communication_timeout_s = job_.parallel.timeout_s,
            .launcher = "sftbench"};
  }

  void start(RankRequest request) {
    Rank rank;
    Pipe events = make_pipe();
    SocketPair control = make_socket_pair();
    rank.events = std::move(events.read_end);
    rank.control = std::move(control.parents);
    rank.log = log_of_rank(spec_.log, request.place.rank);
    const OwnedFd log = open_log(rank.log);
    request.events_fd = events.write_end.get();
    request.control_fd = control.childs.get();
    std::vector<int> inherited = spec_.inherited_fds;
    inherited.insert(inherited.end(), {request.events_fd, request.control_fd});
    if (request.place.listening_fd >= 0) inherited.push_back(request.place.listening_fd);
    const OwnedFd input = anonymous_file("sftbench-rank", packed_json(to_json(request)));
    rank.process = std::make_unique<ChildProcess>(ProcessSpec{.executable = spec_.executable,
                                                              .arguments = {kRankCommand},
                                                              .environment = spec_.environment,
                                                              .standard_input = input.get(),
                                                              .standard_output = log.get(),
                                                              .inherited_fds = inherited});
    ranks_.push_back(std::move(rank));
  }

  // --- what ranks say ---

  // Waits for the next thing to happen, not for long, and takes note of it.
  void pump() {
    std::vector<pollfd> fds;
    for (const Rank& rank : ranks_) {
      if (rank.events) fds.push_back({rank.events.get(), POLLIN, 0});
      if (!rank.ended && rank.process->pidfd() >= 0) {
        fds.push_back({rank.process->pidfd(), POLLIN, 0});
      }
    }
    const double left_s = std::clamp(kill_at_s_ - steady_seconds(), 0.0, kLookSeconds);
    ::poll(fds.data(), fds.size(), static_cast<int>(std::ceil(left_s * 1000)));
    for (size_t rank = 0; rank < ranks_.size(); ++rank) {
      read_events(static_cast<int>(rank));
      if (!ranks_[rank].ended && ranks_[rank].process->ended()) take_end(static_cast<int>(rank));
    }
    if (steady_seconds() >= kill_at_s_) kill_all();
  }

  void read_events(int number) {
    Rank& rank = ranks_[static_cast<size_t>(number)];
    std::array<char, 65536> buffer;
    while (rank.events) {
      const ssize_t got = ::read(rank.events.get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) break;
      if (got == 0) rank.events.close();
      rank.unread.append(buffer.data(), static_cast<size_t>(std::max<ssize_t>(0, got)));
    }
    size_t begin = 0;
    for (size_t end; (end = rank.unread.find('\n', begin)) != std::string::npos; begin = end + 1) {
      take_line(number, std::string_view(rank.unread).substr(begin, end - begin));
    }
    rank.unread.erase(0, begin);
  }

  void take_line(int number, std::string_view text) {
    Rank& rank = ranks_[static_cast<size_t>(number)];
    try {
      Json line = parse_json(text, "what rank " + std::to_string(number) + " said");
      if (line.contains("rank_step")) {
        spec_.on_rank_step(number, line["rank_step"].get<int64_t>());
      } else if (line.contains("whereabouts")) {
        spec_.on_whereabouts(line["whereabouts"].get<std::vector<std::string>>());
      } else if (line.contains("environment")) {
        environment_ = line["environment"];
      } else if (line.contains("failure")) {
        rank.failed = true;
        blame({rank_failure_from_json(line["failure"]), false});
      } else if (line.contains("done")) {
        rank.done = true;
      } else {
        events_.push_back(std::move(line));
      }
    } catch (const std::exception& error) {  // of a process that writes where it must not
      blame({{number, ReasonCode::kInternal, "it said what no rank says", error.what()}, true});
    }
  }

  void replay(const Json& event, const std::vector<TrainObserver*>& observers) {
    if (event.contains("load")) {
      const LoadEvent load = load_event_from_json(event["load"]);
      for (TrainObserver* observer : observers) observer->on_load(load);
    } else if (event.contains("begin")) {
      const TrainBegin begin = train_begin_from_json(event["begin"]);
      for (TrainObserver* observer : observers) observer->on_train_begin(begin);
    } else if (event.contains("step")) {
      const StepEvent step = step_event_from_json(event["step"]);
      for (TrainObserver* observer : observers) observer->on_step_end(step, control_);
      const char answer = control_.stop ? kStop : kGoOn;
      ::send(ranks_.front().control.get(), &answer, 1, MSG_NOSIGNAL);
    } else if (event.contains("evaluation")) {
      const EvaluationEvent evaluation = evaluation_event_from_json(event["evaluation"]);
      for (TrainObserver* observer : observers) observer->on_evaluation(evaluation);
    } else if (event.contains("end")) {
      const TrainEnd end = train_end_from_json(event["end"]);
      for (TrainObserver* observer : observers) observer->on_train_end(end);
    }
  }

  // --- how they end ---

  bool all_ended() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.ended; });
  }
  bool complete() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.done; });
  }

  void take_end(int number) {
    Rank& rank = ranks_[static_cast<size_t>(number)];
    read_events(number);  // its last words
    rank.ended = true;
    if (rank.done || rank.failed || rank.killed) return;
    const ErrorClass end =
        classify_end({.wait_status = rank.process->wait_status(),
                      .oom_kills = count_oom_kills().value_or(0) - oom_kills_before_.value_or(0),
                      .log_tail = tail_of_file(rank.log),
                      .asked = std::nullopt});
    blame({{number, end.code, end.message, end.evidence}, true});
  }

  void blame(Cause cause) {
    causes_.push_back(std::move(cause));
    const double left_s = causes_.back().seen ? kAgreeSeconds : kEndSeconds;
    kill_at_s_ = std::min(kill_at_s_, steady_seconds() + left_s);
  }

  void ask_to_end() {
    asked_ = true;
    kill_at_s_ = std::min(kill_at_s_, steady_seconds() + kInterruptSeconds);
    for (const Rank& rank : ranks_) {
      if (rank.ended) continue;
      rank.process->signal_group(SIGTERM);
      rank.process->signal_group(SIGCONT);  // who is stopped would not even see SIGTERM
    }
  }

  void kill_all() {
    kill_at_s_ = kNever;
    for (Rank& rank : ranks_) {
      if (rank.ended) continue;
      rank.killed = true;
      rank.process->signal_group(SIGKILL);
    }
  }

  // The first of those that outrank all others. Where the end of a process was seen from here, it
  // is known better than what the other ranks, who lost a connection, can tell of it.
  RankFailure worst() const {
    const auto seen = [&](int rank) {
      return std::any_of(causes_.begin(), causes_.end(), [rank](const Cause& cause) {
        return cause.seen && cause.failure.rank == rank;
      });
    };
    const RankFailure* chosen = nullptr;
    for (const Cause& cause : causes_) {
      const RankFailure& failure = cause.failure;
      if (!cause.seen && failure.code == ReasonCode::kKilled && seen(failure.rank)) continue;
      if (chosen == nullptr || precedence(failure.code) < precedence(chosen->code)) {
        chosen = &failure;
      }
    }
    return *chosen;
  }

  // Where ranks that were told of its end last saw it and themselves; empty: they were not told.
  std::string last_seen(const RankFailure& failure) const {
    for (const Cause& cause : causes_) {
      if (!cause.seen && cause.failure.rank == failure.rank &&
          cause.failure.code == ReasonCode::kKilled) {
        return cause.failure.evidence;
      }
    }
    return {};
  }

  RunError error_of(const RankFailure& failure) const {
    if (failure.rank < 0 || failure.rank >= static_cast<int>(ranks_.size())) {  // kNoRank
      return RunError(failure.code, failure.message, failure.evidence);
    }
    const std::filesystem::path& log = ranks_[static_cast<size_t>(failure.rank)].log;
    std::string evidence =
        failure.evidence.empty() ? last_line(tail_of_file(log)) : failure.evidence;
    if (const std::string places = last_seen(failure); places != evidence && !places.empty()) {
      evidence += (evidence.empty() ? "" : "; ") + places;
    }
    return RunError(failure.code,
                    "rank " + std::to_string(failure.rank) + ": " + failure.message +
                        "; its log: " + log_of_rank(spec_.final_log, failure.rank).string(),
                    evidence);
  }

  RankedSpec spec_;
  const TrainingJob& job_;
  std::vector<Rank> ranks_;
  std::optional<int64_t> oom_kills_before_;
  Json environment_;
  std::deque<Json> events_;  // of training, that observers have not been told yet
  TrainControl control_;
  std::vector<Cause> causes_;  // in the order in which they became known
  bool asked_ = false;         // to end, by the user
  double kill_at_s_ = kNever;
};

RankedEngine::RankedEngine(const TrainingJob& job, RankedSpec spec)
    : impl_(std::make_unique<Impl>(job, std::move(spec))) {}
RankedEngine::~RankedEngine() = default;

void RankedEngine::train_job(const TrainingJob& /*job*/, RankGroup& group,
                             const std::vector<TrainObserver*>& observers,
                             const std::function<bool()>& interrupted) {
  check(group.world_size() == 1, "the process that starts ranks is none of them");
  impl_->follow(observers, interrupted);
}

Json RankedEngine::environment() const {
  return impl_->environment();
}

std::vector<int64_t> RankedEngine::process_ids() const {
  return impl_->process_ids();
}

}  // namespace sftbench
