// The operations of one group of ranks over Gloo: a queue, the thread's loop that works through it,
// and what has become of the group. The first failure is the group's: what waits and what comes
// later ends with it. Operations that are waited for keep the queue alive.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "parallel/collective_call.h"
#include "parallel/gloo_transfers.h"
#include "sftbench/base/error.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {

class GlooQueue {
 public:
  using Run = std::function<void(GlooTransfers&)>;

  struct Entry {
    CollectiveCall call;
    Run run;  // holds the tensors
    bool done = false;
  };

  GlooQueue(RankGroup& group, std::string name, std::shared_ptr<gloo::Context> context);

  int64_t rank() const { return transfers_.rank(); }
  int64_t size() const { return transfers_.size(); }

  std::shared_ptr<Entry> start(CollectiveCall call, Run run);
  // Until it is done. Throws what the group has ended with.
  void wait(Entry& entry);

  void abort(const std::string& why);
  // No more operations will come: work() returns when those that are there are done.
  void finish();

  // Before the first operation.
  void on_end(std::function<void(const CollectiveSpan&)> listener) {
    listener_ = std::move(listener);
  }
  CommunicationCounters counters() const;

  // What the thread does.
  void work();

 private:
  std::shared_ptr<Entry> next();  // null: the end
  void end(Entry& entry, double seconds);
  void fail(const RunError& error);
  bool failed() const;

  RunError explain(const CollectiveCall& call, const std::exception& error, double begin_s) const;
  std::string described(const CollectiveCall& call) const { return describe(call, name_, size()); }
  double timeout_s() const { return group_.place().communication_timeout_s; }

  RankGroup& group_;
  const std::string name_;
  GlooTransfers transfers_;
  std::function<void(const CollectiveSpan&)> listener_;

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::deque<std::shared_ptr<Entry>> queue_;
  int64_t started_ = 0;
  bool finishing_ = false;
  std::optional<RunError> failure_;
  CommunicationCounters counters_{};
};

}  // namespace sftbench
