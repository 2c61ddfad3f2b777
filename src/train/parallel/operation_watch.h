// Watches operations that a device runs later: NCCL's kernels spin for ever when a peer does not
// come, and its network errors are told only to who asks. One thread looks whether the oldest
// operation has ended, whether NCCL or the rank group has something to say, and whether the
// deadline of an operation has passed, which begins when the one before it ends.
//
// The first failure is the communicator's: it is kept, and what is under way is aborted, once.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "parallel/collective_call.h"
#include "parallel/nccl_backend.h"
#include "sftbench/base/error.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {

class OperationWatch {
 public:
  struct Hooks {
    std::function<std::string()> error;  // of the device; empty: none
    std::function<double(NcclBackend::Event&, NcclBackend::Event&)> seconds;
    std::function<double(NcclBackend::Event&)> time_of;
    std::function<void()> abort;  // what is under way; called once, from the thread that noticed
  };

  OperationWatch(RankGroup& group, std::string name, int64_t ranks, Hooks hooks);
  ~OperationWatch();

  OperationWatch(const OperationWatch&) = delete;
  OperationWatch& operator=(const OperationWatch&) = delete;

  // The call with its number. Throws the failure when there is one.
  CollectiveCall number(CollectiveCall call);
  // It was put between these two events.
  void started(const CollectiveCall& call, int64_t sent_bytes,
               std::shared_ptr<NcclBackend::Event> begin, std::shared_ptr<NcclBackend::Event> end);
  // One that has nothing to do.
  void nothing_to_do(const CollectiveCall& call);

  // The caller's stream stands still from `arrived` to `end`, if it is there first.
  void waited_for(std::unique_ptr<NcclBackend::Event> arrived,
                  std::shared_ptr<NcclBackend::Event> end);

  void fail(const RunError& error);
  // Returns when nothing is under way any more, or when it never will be.
  void finish();
  // "all_gather #3 of group ...: WHAT"
  RunError error_about(const CollectiveCall& call, const std::string& what,
                       const std::string& evidence) const;
  bool failed() const;
  void throw_if_failed() const;

  CommunicationCounters counters();  // looks for ends first
  double take_wait_seconds();        // since the last call, of waits whose end was seen
  // Told of each operation whose end is seen. Before the first one.
  void on_end(std::function<void(const CollectiveSpan&)> listener);

 private:
  struct Watched {
    CollectiveCall call;
    int64_t sent_bytes = 0;
    std::shared_ptr<NcclBackend::Event> begin;
    std::shared_ptr<NcclBackend::Event> end;
    double started_s = 0;
  };

  struct Wait {
    std::unique_ptr<NcclBackend::Event> arrived;
    std::shared_ptr<NcclBackend::Event> end;
  };

  void watch();
  void count_ended();  // with mutex_ held
  void count_waits();  // with mutex_ held
  std::optional<RunError> problem();

  RankGroup& group_;
  const std::string name_;
  const int64_t ranks_;
  const Hooks hooks_;

  mutable std::mutex mutex_;  // guards the rest
  std::condition_variable changed_;
  std::deque<Watched> under_way_;
  std::deque<Wait> waits_;
  double waited_s_ = 0;
  double progress_s_ = 0;  // when an operation was last seen to have ended
  int64_t numbered_ = 0;
  bool ending_ = false;
  std::optional<RunError> failure_;
  CommunicationCounters counters_{};
  std::function<void(const CollectiveSpan&)> listener_;

  std::thread watcher_;
};

}  // namespace sftbench
