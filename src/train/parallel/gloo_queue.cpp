#if SFTBENCH_GLOO

#include "parallel/gloo_queue.h"

#include <chrono>
#include <new>
#include <thread>

#include "sftbench/base/clock.h"

namespace sftbench {
namespace {

// How long a broken connection waits for the rank group to say who has failed.
constexpr double kBlameGrace_s = 1;
// How often who waits looks whether the group has heard of a failure.
constexpr auto kFailurePoll = std::chrono::milliseconds(100);

// Ranks that do not do the same never meet: the deadline tells, instead of wrong numbers.
uint64_t slot_of(const CollectiveCall& call) {
  const auto size = static_cast<uint64_t>(call.bytes) * 0x9e3779b97f4a7c15u >> 40;
  return static_cast<uint64_t>(call.sequence) << 32 | static_cast<uint64_t>(call.collective) << 24 |
         size;
}

}  // namespace

GlooQueue::GlooQueue(RankGroup& group, std::string name, std::shared_ptr<gloo::Context> context)
    : group_(group), name_(std::move(name)), transfers_(std::move(context)) {}

std::shared_ptr<GlooQueue::Entry> GlooQueue::start(CollectiveCall call, Run run) {
  const std::lock_guard lock(mutex_);
  if (failure_) throw *failure_;
  call.sequence = ++started_;
  auto entry = std::make_shared<Entry>(Entry{call, std::move(run)});
  queue_.push_back(entry);
  changed_.notify_all();
  return entry;
}

void GlooQueue::wait(Entry& entry) {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kFailurePoll, [&] { return entry.done || failure_; })) {
    lock.unlock();
    if (const auto failure = group_.failure()) fail(error_of(*failure, group_.ranks()));
    lock.lock();
  }
  if (!entry.done) throw *failure_;
}

void GlooQueue::abort(const std::string& why) {
  fail(RunError(ReasonCode::kNccl, "communication in group " + name_ + " was ended: " + why));
}

void GlooQueue::finish() {
  const std::lock_guard lock(mutex_);
  finishing_ = true;
  changed_.notify_all();
}

CommunicationCounters GlooQueue::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

void GlooQueue::work() {
  while (const std::shared_ptr<Entry> entry = next()) {
    const double begin_s = steady_seconds();
    try {
      transfers_.begin(slot_of(entry->call), begin_s + timeout_s());
      entry->run(transfers_);
    } catch (const std::bad_alloc&) {
      transfers_.close();
      fail(RunError(ReasonCode::kOomHost, described(entry->call) + ": no memory for its buffers"));
      continue;
    } catch (const std::exception& error) {
      transfers_.close();  // peers notice at once, while this rank finds out why
      fail(explain(entry->call, error, begin_s));
      continue;
    }
    const double end_s = steady_seconds();
    if (listener_) listener_({entry->call.collective, entry->call.known_bytes(), begin_s, end_s});
    end(*entry, end_s - begin_s);
  }
}

std::shared_ptr<GlooQueue::Entry> GlooQueue::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !queue_.empty() || finishing_; });
  if (queue_.empty()) return nullptr;
  const std::shared_ptr<Entry> entry = queue_.front();
  queue_.pop_front();
  return entry;
}

void GlooQueue::end(Entry& entry, double seconds) {
  const std::lock_guard lock(mutex_);
  CollectiveCounters& counter = counters_[static_cast<size_t>(entry.call.collective)];
  ++counter.calls;
  counter.sent_bytes += transfers_.sent_bytes();
  counter.seconds += seconds;
  entry.run = nullptr;
  entry.done = true;
  changed_.notify_all();
}

void GlooQueue::fail(const RunError& error) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = error;
    queue_.clear();
    changed_.notify_all();
  }
  transfers_.abort();
}

bool GlooQueue::failed() const {
  const std::lock_guard lock(mutex_);
  return failure_.has_value();
}

RunError GlooQueue::explain(const CollectiveCall& call, const std::exception& error,
                            double begin_s) const {
  const double end_s = steady_seconds();
  if (end_s >= begin_s + timeout_s()) {
    if (const auto failure = group_.failure()) return error_of(*failure, group_.ranks());
    return RunError(ReasonCode::kNccl, overdue_text(described(call), timeout_s(), group_.rank()),
                    error.what());
  }
  do {
    if (const auto failure = group_.failure()) return error_of(*failure, group_.ranks());
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  } while (steady_seconds() < end_s + kBlameGrace_s && !failed());
  return RunError(ReasonCode::kNccl,
                  described(call) + " failed on rank " + std::to_string(group_.rank()) +
                      ": another rank has ended or its connection was lost",
                  error.what());
}

}  // namespace sftbench

#endif
