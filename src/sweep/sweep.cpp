#include "sftbench/sweep/sweep.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <utility>

#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/shared_file.h"
#include "sftbench/launch/measure_job.h"
#include "sftbench/launch/run_series.h"
#include "sftbench/results/claim.h"
#include "sftbench/sweep/machine.h"
#include "sftbench/sweep/store_view.h"
#include "sweep/cell_queue.h"
#include "sweep/cell_times.h"
#include "sweep/circuit_breaker.h"
#include "sweep/left_cells.h"
#include "sweep/result_writer.h"
#include "sweep/running_cells.h"
#include "sweep/settled_before.h"
#include "sweep/store_guard.h"

namespace sftbench {
namespace {

// A million cells that are settled already must not keep children or Ctrl-C waiting.
constexpr int kLooksPerTurn = 64;

// A cell whose turn it is.
struct Candidate {
  Cell cell;
  std::optional<CellPlan> plan;
  bool unread = false;  // CellQueue::Next
};

bool cut_short(const Measurement& measurement) {
  return measurement.reason && measurement.reason->code == ReasonCode::kKilled;
}

}  // namespace

class Sweep::Impl {
 public:
  Impl(WalkSource& walk, const CellPlanner& planner, Machine& machine, const ResultStore& store,
       Claims& claims, SweepOptions options, SweepObserver& observer, int interrupt_fd)
      : planner_(planner),
        store_(store),
        claims_(claims),
        options_(std::move(options)),
        observer_(observer),
        interrupt_fd_(interrupt_fd),
        queue_(walk, planner),
        stored_(store, options_),
        guard_(store, claims),
        machine_(machine),
        writer_(store, options_.worker),
        breaker_(options_.breaker_failures, options_.breaker_quick_s),
        running_(store, options_),
        before_(planner, options_, stored_, queue_, guard_, state_, observer) {
    state_.cells_at_most = planner.cells(walk.entities_left_at_most());
  }

  SweepEnd run() {
    began_s_ = steady_seconds();
    for (const ExperimentReference& reference : planner_.context().space.experiments) {
      enter(reference.experiment->identifier);
    }
    observer_.on_begin(state_);
    while (true) {
      mind_folders();
      mind_claims();
      mind_deadline();
      const bool looked_at_all = start_what_fits();
      tick();
      const bool idle = running_.empty() && writer_.idle();
      if (idle && (end_ || (looked_at_all && nothing_left()))) break;
      wait(looked_at_all);
      collect();
      settle_written();
    }
    tick();
    check_claims();
    state_left_ = left_.remaining(stored_);
    if (end_) return *end_;
    if (no_time_ && !state_left_.empty()) return SweepEnd::kDeadline;
    return limit_reached_ ? SweepEnd::kLimit : SweepEnd::kComplete;
  }

  SweepState state_;
  std::string message_;
  std::vector<CellsLeft> state_left_;

 private:
  bool nothing_left() const {
    return !candidate_ && std::isinf(queue_.next_at_s(steady_seconds(), under_way()));
  }

  // --- the folders of results ---

  void enter(const std::string& experiment) {
    guard_.enter(experiment);
    stored_.remember(experiment);
  }

  // True when a folder is gone. What runs then goes on to its end and is written to where the
  // folder was: hours of training are worth more than a tidy end.
  bool mind_folders() {
    const std::optional<std::string> gone = guard_.gone();
    if (gone && !end_) {
      end_ = SweepEnd::kStoreFailed;
      message_ = *gone + " while the sweep ran";
    }
    return gone.has_value();
  }

  // A child whose result cannot be kept any more is ended: its successor needs no second one.
  void mind_claims() {
    eventfd_t ignored = 0;
    if (claims_.lost_fd() >= 0) ::eventfd_read(claims_.lost_fd(), &ignored);
    running_.give_up_lost_claims();
  }

  void mind_deadline() {
    if (end_ || !options_.until_s || steady_seconds() < *options_.until_s) return;
    end_children(SweepEnd::kDeadline);
  }

  // What is said to be settled is what is on disk.
  void check_claims() {
    mind_folders();
    const std::optional<std::string> gone = guard_.take_back_what_is_gone(state_);
    if (!gone) return;
    message_ += (message_.empty() ? "" : "; ") + *gone;
    if (end_ != SweepEnd::kInterrupted) end_ = SweepEnd::kStoreFailed;
  }

  // --- what is started ---

  // False when there may be more to look at right away.
  bool start_what_fits() {
    for (int looks = 0; looks < kLooksPerTurn && !end_; ++looks) {
      if (writer_.busy()) return true;
      if (!candidate_ && !next_candidate()) return true;
      if (!handle(*candidate_)) return true;
      candidate_.reset();
    }
    return end_.has_value();
  }

  int64_t under_way() const {
    return static_cast<int64_t>(running_.size()) + (writer_.idle() ? 0 : 1);
  }

  bool next_candidate() {
    std::optional<CellQueue::Next> next = queue_.next(steady_seconds(), under_way());
    if (!next) return false;
    Cell& cell = next->cell;
    if (next->unread) {
      --state_.unread;
    } else if (cell.attempt == 1 && cell.looks == 0) {
      stored_.count_samples(cell);
    }
    candidate_ = Candidate{std::move(cell), {}, next->unread};
    return true;
  }

  // False when it must wait for room; else it runs, is settled or stands in the queue again.
  bool handle(Candidate& candidate) {
    Cell& cell = candidate.cell;
    if (candidate.plan && !has_room(*candidate.plan)) return false;
    if (std::exchange(candidate.unread, false)) {
      if (before_.settled_at_last(cell)) return true;
    } else if (before_.left_unread(cell) || before_.settled(cell)) {
      return true;
    }
    if (options_.limit > 0 && cells_begun_ >= options_.limit && cell.attempt == 1) {
      limit_reached_ = true;
      queue_.keep_only_retries();
      return true;
    }
    if (!candidate.plan && put_off_as_held(cell)) return true;
    if (!candidate.plan) candidate.plan = plan(cell);
    if (leave(cell, *candidate.plan)) return true;
    if (!has_room(*candidate.plan)) return false;
    std::shared_ptr<Claim> claim = acquire(cell);
    if (!claim) return true;
    cells_begun_ += cell.attempt == 1;
    if (!candidate.plan->settled) keep_files(cell, *candidate.plan);
    if (candidate.plan->settled) {
      record_without_child(cell, *candidate.plan, std::move(claim));
    } else {
      const Demand demand = planner_.demand(candidate.plan->job);
      start(std::move(cell), std::move(*candidate.plan), std::move(claim), machine_.take(demand));
    }
    return true;
  }

  bool leave(const Cell& cell, const CellPlan& plan) {
    const std::optional<ReasonToLeave> reason = reason_to_leave(cell, plan, options_, times_);
    if (!reason) return false;
    no_time_ = no_time_ || reason->no_time;
    left_.add(cell, *reason);
    return true;
  }

  bool has_room(const CellPlan& plan) const {
    return plan.settled || machine_.has_room(planner_.demand(plan.job));
  }

  // A look is cheaper than a plan, which a worker would make in vain for each cell of the others.
  bool put_off_as_held(const Cell& cell) {
    const auto holder =
        options_.worker ? claims_.holder(cell.request.experiment, cell.key) : std::nullopt;
    if (holder) put_off(cell, *holder);
    return holder.has_value();
  }

  void put_off(const Cell& cell, const std::string& holder) {
    if (cell.looks == 0) observer_.on_busy(cell, holder);
    queue_.put_off(cell, steady_seconds(), claims_.look_again_s());
    // Whoever goes on beside another worker meets it at each cell.
    if (options_.worker) queue_.jump(std::generate_canonical<double, 32>(random_));
  }

  // Nothing when another sweep has it, or has ended it meanwhile, or no claim can be made.
  std::shared_ptr<Claim> acquire(Cell& cell) {
    std::string holder;
    std::shared_ptr<Claim> claim;
    try {
      claim = claims_.try_acquire(cell.request.experiment, cell.key, &holder);
    } catch (const NameTaken& error) {
      left_.add(cell, {"in the way", error.what()});
      return nullptr;
    } catch (const InputError& error) {
      store_failed(error.what());
      return nullptr;
    }
    if (!claim) {
      put_off(cell, holder);
      return nullptr;
    }
    return before_.settled(cell) ? nullptr : claim;
  }

  CellPlan plan(const Cell& cell) {
    CellPlan plan = planner_.plan(cell);
    for (const std::string& note : plan.notes) {
      if (notes_.insert(note).second) observer_.on_note(note);
    }
    return plan;
  }

  // Behind the lock: nobody else writes to the cell's folders now.
  void keep_files(const Cell& cell, CellPlan& plan) const {
    try {
      options_.keep(cell, plan.job);
    } catch (const InputError& error) {
      plan.settled = ErrorClass{ReasonCode::kWeights, error.what(), {}};
    }
  }

  void record_without_child(const Cell& cell, const CellPlan& plan, std::shared_ptr<Claim> claim) {
    MeasureOptions options;
    options.command = options_.command(cell);
    writer_.write({cell,
                   ended_measurement(plan.job, *plan.settled, options, planner_.context().nvml),
                   std::move(claim),
                   0,
                   {},
                   {}});
  }

  void start(Cell cell, CellPlan plan, std::shared_ptr<Claim> claim, Share share) {
    if (!share.cores.empty())
      plan.job.device.threads = share.threads_of(planner_.demand(plan.job).ranks);
    observer_.on_start(cell, share);
    if (const auto warning = options_.preflight(plan.job, share)) {
      observer_.on_warning(cell, *warning);
    }
    const Cell begun = cell;
    const Share taken = share;
    try {
      running_.start(std::move(cell), std::move(plan), std::move(claim), std::move(share));
    } catch (const NameTaken& error) {  // of its log
      machine_.give_back(taken);
      left_.add(begun, {"in the way", error.what()});
    } catch (const InputError& error) {
      store_failed(error.what());
    }
  }

  // --- what ends ---

  void collect() {
    running_.collect([this](Running& running) { return next_sample(running); });
  }

  // Hands on what the child came to. True when the next sample runs in its place.
  bool next_sample(Running& running) {
    Measurement measurement = running.child.result();
    measurement.environment["concurrent_cells"] = running.concurrent_cells;
    Cell& cell = running.cell;
    if (running.given_up && cut_short(measurement)) {
      look_again(cell, "another process has taken its claim over, as this one was stopped");
    } else if (unwanted(measurement)) {
      remove_log(cell);
    } else {
      const double seconds = running.child.elapsed_s();
      times_.took(cell, seconds);
      breaker_.ended(measurement, seconds);
      if (breaker_.tripped() && !end_) {
        end_ = SweepEnd::kTripped;
        message_ = breaker_.message();
      }
      writer_.write({cell, measurement, running.claim, seconds, {}, {}});
    }
    if (!end_ && !running.given_up && measurement.status == Status::kValid &&
        cell.sample < cell.samples) {
      ++cell.sample;
      cell.attempt = 1;
      if (restart(running)) return true;
    }
    machine_.give_back(running.share);
    return false;
  }

  bool restart(Running& running) {
    // A sample has folders of its own, and goes on from nothing of the one before.
    keep_files(running.cell, running.plan);
    if (running.plan.settled) {
      record_without_child(running.cell, running.plan, running.claim);
      return false;
    }
    try {
      running_.restart(running);
      return true;
    } catch (const InputError& error) {
      store_failed(error.what());
      return false;
    }
  }

  void settle_written() {
    for (const Ended& ended : writer_.take_written()) {
      if (!ended.lost.empty()) {
        if (!running_.has(ended.cell)) look_again(ended.cell, ended.lost);
      } else if (!ended.problem.empty()) {
        remove_log(ended.cell);
        store_failed(ended.problem);
      } else {
        settle(ended);
      }
    }
  }

  // The files of the key are its new holder's: nothing of them is touched.
  void look_again(Cell cell, const std::string& why) {
    observer_.on_lost(cell, why);
    if (!end_) queue_.put_off(std::move(cell), steady_seconds(), claims_.look_again_s());
  }

  void settle(const Ended& ended) {
    const Cell& cell = ended.cell;
    const Outcome outcome{ended.measurement.status, &ended.measurement, ended.seconds};
    const bool by_child = ended.seconds > 0;
    // The measurement counts. Whoever wanted the files has to know.
    const std::vector<std::string> problems = unsaved_folders(ended.measurement);
    state_.unsaved += problems.empty() ? 0 : 1;
    for (const std::string& problem : problems) observer_.on_warning(cell, problem);
    if (by_child && outcome.status == Status::kFailed && cell.attempt <= options_.max_retries &&
        !end_) {
      observer_.on_retry(cell, outcome);
      Cell again = cell;
      ++again.attempt;
      queue_.retry(std::move(again));
    } else if (outcome.status == Status::kValid && cell.sample < cell.samples) {
      observer_.on_sample(cell, outcome);
    } else {
      const std::optional<Reason>& reason = ended.measurement.reason;
      const OutcomeKind kind = {outcome.status,
                                reason ? std::optional(reason->code) : std::nullopt};
      ++state_.now[kind];
      guard_.claim(cell, kind, false);
      observer_.on_settled(cell, outcome);
    }
  }

  void remove_log(const Cell& cell) const {
    store_.remove_growing_logs(cell.request.experiment, cell.key, cell.sample);
  }

  // What was ended from here says nothing about the cell.
  bool unwanted(const Measurement& measurement) const {
    const bool ended_from_here = end_ == SweepEnd::kInterrupted || end_ == SweepEnd::kDeadline ||
                                 end_ == SweepEnd::kStoreFailed;
    return ended_from_here && cut_short(measurement);
  }

  void store_failed(const std::string& problem) {
    if (mind_folders() || end_ == SweepEnd::kStoreFailed) return;
    message_ = problem;
    end_children(SweepEnd::kStoreFailed);
  }

  void end_children(SweepEnd end) {
    end_ = end;
    running_.end_all("the sweep was ended");
  }

  // --- waiting ---

  void wait(bool looked_at_all) {
    std::vector<pollfd> fds = {
        {interrupt_fd_, POLLIN, 0}, {writer_.fd(), POLLIN, 0}, {claims_.lost_fd(), POLLIN, 0}};
    running_.add_poll_fds(fds);
    const double wait_s = looked_at_all ? std::max(0.0, next_deadline_s() - steady_seconds()) : 0;
    ::poll(fds.data(), fds.size(), static_cast<int>(std::ceil(std::min(wait_s, 3600.0) * 1000)));
    if ((fds.front().revents & POLLIN) == 0) return;
    signalfd_siginfo signal;
    if (::read(interrupt_fd_, &signal, sizeof signal) >= 0) end_children(SweepEnd::kInterrupted);
  }

  double next_deadline_s() const {
    const double now_s = steady_seconds();
    double next_s = now_s + observer_.tick_s();
    if (options_.until_s && !end_) next_s = std::min(next_s, *options_.until_s);
    next_s = std::min(next_s, running_.deadline_s());
    const bool for_room = candidate_ || end_ || writer_.busy();
    return for_room ? next_s : std::min(next_s, queue_.next_at_s(now_s, under_way()));
  }

  void tick() {
    state_.elapsed_s = steady_seconds() - began_s_;
    state_.retries = static_cast<int64_t>(queue_.retries());
    state_.busy = static_cast<int64_t>(queue_.put_off_count());
    state_.estimate(running_.show(state_.running));
    observer_.on_tick(state_);
  }

  const CellPlanner& planner_;
  const ResultStore& store_;
  Claims& claims_;
  const SweepOptions options_;
  SweepObserver& observer_;
  int interrupt_fd_;

  CellQueue queue_;
  StoreView stored_;
  StoreGuard guard_;
  Machine& machine_;
  ResultWriter writer_;
  CircuitBreaker breaker_;
  std::optional<Candidate> candidate_;  // waits for room
  RunningCells running_;
  SettledBefore before_;
  std::optional<SweepEnd> end_;  // set: nothing is started any more
  bool limit_reached_ = false;
  CellTimes times_;
  LeftCells left_;
  bool no_time_ = false;  // for some of them
  std::mt19937_64 random_{std::random_device()()};
  std::set<std::string> notes_;  // that were said
  int64_t cells_begun_ = 0;
  double began_s_ = 0;
};

Sweep::Sweep(WalkSource& walk, const CellPlanner& planner, Machine& machine,
             const ResultStore& store, Claims& claims, SweepOptions options,
             SweepObserver& observer, int interrupt_fd)
    : impl_(std::make_unique<Impl>(walk, planner, machine, store, claims, std::move(options),
                                   observer, interrupt_fd)) {}

Sweep::~Sweep() = default;

SweepEnd Sweep::run() {
  return impl_->run();
}

const SweepState& Sweep::state() const {
  return impl_->state_;
}

const std::vector<CellsLeft>& Sweep::left() const {
  return impl_->state_left_;
}

const std::string& Sweep::message() const {
  return impl_->message_;
}

}  // namespace sftbench
