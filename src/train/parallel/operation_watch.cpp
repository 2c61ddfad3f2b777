#include "parallel/operation_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "sftbench/base/clock.h"

namespace sftbench {
namespace {

constexpr auto kLookEvery = std::chrono::milliseconds(20);

}  // namespace

OperationWatch::OperationWatch(RankGroup& group, std::string name, int64_t ranks, Hooks hooks)
    : group_(group),
      name_(std::move(name)),
      ranks_(ranks),
      hooks_(std::move(hooks)),
      watcher_([this] { watch(); }) {}

OperationWatch::~OperationWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  watcher_.join();
}

CollectiveCall OperationWatch::number(CollectiveCall call) {
  const std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
  call.sequence = ++numbered_;
  return call;
}

void OperationWatch::started(const CollectiveCall& call, int64_t sent_bytes,
                             std::shared_ptr<NcclBackend::Event> begin,
                             std::shared_ptr<NcclBackend::Event> end) {
  const std::lock_guard lock(mutex_);
  under_way_.push_back({call, sent_bytes, std::move(begin), std::move(end), steady_seconds()});
  changed_.notify_all();
}

void OperationWatch::nothing_to_do(const CollectiveCall& call) {
  const std::lock_guard lock(mutex_);
  ++counters_[static_cast<size_t>(call.collective)].calls;
}

void OperationWatch::waited_for(std::unique_ptr<NcclBackend::Event> arrived,
                                std::shared_ptr<NcclBackend::Event> end) {
  const std::lock_guard lock(mutex_);
  waits_.push_back({std::move(arrived), std::move(end)});
}

void OperationWatch::fail(const RunError& error) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = error;
    changed_.notify_all();
  }
  hooks_.abort();
}

void OperationWatch::finish() {
  const auto finished = [&] {
    const std::lock_guard lock(mutex_);
    count_ended();
    return failure_ || under_way_.empty();
  };
  while (!finished()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

RunError OperationWatch::error_about(const CollectiveCall& call, const std::string& what,
                                     const std::string& evidence) const {
  return RunError(
      ReasonCode::kNccl,
      describe(call, name_, ranks_) + " on rank " + std::to_string(group_.rank()) + ": " + what,
      evidence);
}

bool OperationWatch::failed() const {
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

void OperationWatch::throw_if_failed() const {
  const std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
}

CommunicationCounters OperationWatch::counters() {
  const std::lock_guard lock(mutex_);
  count_ended();
  return counters_;
}

double OperationWatch::take_wait_seconds() {
  const std::lock_guard lock(mutex_);
  count_waits();
  return std::exchange(waited_s_, 0.0);
}

void OperationWatch::on_end(std::function<void(const CollectiveSpan&)> listener) {
  const std::lock_guard lock(mutex_);
  listener_ = std::move(listener);
}

void OperationWatch::watch() {
  std::unique_lock lock(mutex_);
  while (!ending_ && !failure_) {
    if (under_way_.empty()) {
      changed_.wait(lock);
      continue;
    }
    changed_.wait_for(lock, kLookEvery, [&] { return ending_ || failure_; });
    lock.unlock();
    if (const auto error = problem()) fail(*error);
    lock.lock();
  }
}

void OperationWatch::count_waits() {
  while (!failure_ && !waits_.empty() && waits_.front().arrived->reached() &&
         waits_.front().end->reached()) {
    const Wait& wait = waits_.front();
    waited_s_ += std::max(0.0, hooks_.seconds(*wait.arrived, *wait.end));
    waits_.pop_front();
  }
}

void OperationWatch::count_ended() {
  count_waits();
  while (!failure_ && !under_way_.empty() && under_way_.front().end->reached()) {
    const Watched& watched = under_way_.front();
    CollectiveCounters& counter = counters_[static_cast<size_t>(watched.call.collective)];
    ++counter.calls;
    counter.sent_bytes += watched.sent_bytes;
    counter.seconds += hooks_.seconds(*watched.begin, *watched.end);
    if (listener_) {
      listener_({watched.call.collective, watched.call.known_bytes(),
                 hooks_.time_of(*watched.begin), hooks_.time_of(*watched.end)});
    }
    under_way_.pop_front();
    progress_s_ = steady_seconds();
  }
}

std::optional<RunError> OperationWatch::problem() {
  CollectiveCall oldest;
  double begin_s = 0;
  try {
    const std::lock_guard lock(mutex_);
    count_ended();
    if (under_way_.empty()) return std::nullopt;
    oldest = under_way_.front().call;
    begin_s = std::max(under_way_.front().started_s, progress_s_);
  } catch (const std::exception& error) {  // of the device, which every later call repeats
    return RunError(ReasonCode::kNccl,
                    "communication in group " + name_ + " failed on rank " +
                        std::to_string(group_.rank()) + ": the device has failed",
                    error.what());
  }
  if (const auto failure = group_.failure()) return error_of(*failure, group_.ranks());
  if (const std::string text = hooks_.error(); !text.empty()) {
    return error_about(oldest, "NCCL reports an error", text);
  }
  const double timeout_s = group_.place().communication_timeout_s;
  if (steady_seconds() - begin_s < timeout_s) return std::nullopt;
  return RunError(ReasonCode::kNccl,
                  overdue_text(describe(oldest, name_, ranks_), timeout_s, group_.rank()));
}

}  // namespace sftbench
