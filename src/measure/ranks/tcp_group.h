// A RankGroup over TCP: one connection from each rank to rank 0, whose coordinator completes what
// the ranks begin together. A thread of its own reads and writes, keeps up the signs of life, and
// notices when the other side falls silent or is gone; calls of other threads hand it messages and
// wait.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "ranks/coordinator.h"
#include "ranks/rendezvous.h"
#include "sftbench/base/owned_fd.h"

namespace sftbench {

class TcpGroup : public RankGroup {
 public:
  TcpGroup(RankPlace place, Meeting meeting);
  // What was said before is still sent.
  ~TcpGroup() override;

  const RankPlace& place() const override { return place_; }
  const std::vector<RankInfo>& ranks() const override { return ranks_; }
  std::vector<std::string> all_gather(const std::string& text) override;
  void set(const std::string& key, const std::string& value) override;
  std::string get(const std::string& key) override;
  RankFailure fail(const RankFailure& failure) override;
  std::optional<RankFailure> failure() const override;
  void on_failure(std::function<void(const RankFailure&)> wake) override;
  void at(const std::string& where) override;
  std::vector<std::string> whereabouts() const override;
  void leave() override;
  void outlast_rank0(double most_s) override;

 private:
  // Of any thread that holds mutex_.
  bool failed() const { return heard_ || verdict_; }
  void require_well() const;
  std::string own_last_seen() const;
  void post(Message message);

  // Of the service thread.
  void serve();
  bool serve_once();
  void wait() const;
  void take_from(size_t connection);
  void lose(size_t connection, const std::string& why);
  void deliver(const Message& message);  // to the coordinator, which may be here
  void deliver_letters();
  void hear(const Message& message);  // from the coordinator
  void keep_alive(double now_s);
  void call_waker();
  void settle(const RankFailure& failure);

  const RankPlace place_;
  const std::vector<RankInfo> ranks_;
  const CoordinatorTimes times_;
  OwnedFd wake_fd_;

  // The service thread's alone.
  std::vector<std::unique_ptr<Connection>> connections_;  // as in Meeting; none: gone, or this rank
  std::optional<Coordinator> coordinator_;                // rank 0's
  double coordinator_heard_s_ = 0;
  double next_alive_s_ = 0;
  bool woken_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<Message> outbox_;
  std::optional<std::vector<std::string>> gathered_;
  std::map<std::string, std::string> answers_;  // by number of the question
  int64_t questions_ = 0;
  std::optional<RankFailure> heard_;    // the first
  std::optional<RankFailure> verdict_;  // that all agree on
  std::function<void(const RankFailure&)> wake_;
  std::string where_;                     // this rank is
  std::vector<std::string> whereabouts_;  // rank 0's: of all
  bool left_ = false;
  bool farewell_ = false;
  bool rank0_gone_ = false;
  bool closing_ = false;

  std::thread thread_;
};

}  // namespace sftbench
