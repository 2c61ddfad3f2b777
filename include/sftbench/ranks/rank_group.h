// The processes that train one job, and what they say to each other beside tensors: who is there,
// small texts (addresses, an NCCL id, reports), and that one of them has failed. One TCP connection
// from each rank to rank 0 carries all of it, so that a process that dies is noticed at once, by
// name, while a collective operation would wait for its deadline.
//
// Nothing here knows libtorch: a launcher joins before the engine is loaded, and hands the group
// on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/owned_fd.h"
#include "sftbench/ranks/rank_place.h"

namespace sftbench {

// What each rank tells the others when it comes.
struct RankInfo {
  int rank = 0;
  int local_rank = 0;
  int node = 0;
  std::string host;
  int64_t pid = 0;
};

// The first failure that the group has agreed on: a rank's out-of-memory outranks what the others
// report, who usually just see a lost peer.
struct RankFailure {
  int rank = 0;
  ReasonCode code = ReasonCode::kInternal;
  std::string message;
  std::string evidence;
  bool asked = false;  // no error: the rank was asked to end, as by a signal
};

// Calls that are marked collective are made by every rank in the same order. All of them throw
// RunError once the group has failed, or when a deadline passes: kNccl naming the ranks that are
// missing, or the failed rank's own code and message with its number.
class RankGroup {
 public:
  virtual ~RankGroup() = default;

  virtual const RankPlace& place() const = 0;
  // In rank order.
  virtual const std::vector<RankInfo>& ranks() const = 0;

  int rank() const { return place().rank; }
  int world_size() const { return place().world_size; }

  // Collective: every rank's text, in rank order.
  virtual std::vector<std::string> all_gather(const std::string& text) = 0;

  // A value for any rank that asks, once. get() waits for it. From any thread.
  virtual void set(const std::string& key, const std::string& value) = 0;
  virtual std::string get(const std::string& key) = 0;

  // This rank cannot go on: tells the others, learns what they have to say, and returns what all of
  // them agree to have ended for. Called once, instead of further collective calls.
  virtual RankFailure fail(const RankFailure& failure) = 0;

  // What has been heard of, from any thread; none while all is well.
  virtual std::optional<RankFailure> failure() const = 0;

  // Called once, from a thread of the group, as soon as a failure is heard of: wakes who waits for
  // tensors that will never come.
  virtual void on_failure(std::function<void(const RankFailure&)> wake) = 0;

  // Where this rank is ("in the forward pass of step 7"): goes to rank 0 with the next sign of
  // life, for the message should ranks hang. Costs little. From any thread.
  virtual void at(const std::string& /*where*/) {}
  // What rank 0 last heard of each rank, in rank order, "" where nothing; in others nothing.
  virtual std::vector<std::string> whereabouts() const { return {}; }

  // The other ranks never come, and the device computes nothing: what it would say is assumed.
  virtual bool rehearses() const { return false; }

  // Collective: the end. After it a lost connection is nobody's failure.
  virtual void leave() = 0;

  // After a failure, in ranks other than 0: waits until rank 0's group is closed, or has been
  // silent for the communication's deadline, `most_s` at most. A launcher may end all ranks as soon
  // as one has ended, and rank 0 has to tell the user first.
  virtual void outlast_rank0(double /*most_s*/) {}
};

// A world of one.
std::unique_ptr<RankGroup> make_single_rank();

// The first of `world_size` ranks on `nodes` nodes, where no other ever comes: what the others
// would say is what this one says. For a rehearsal (launch/rehearsal.h).
std::unique_ptr<RankGroup> make_lone_rank(int world_size, int nodes);

// Meets the others at place.address:port. RunError(kNccl) naming the ranks that did not come within
// the deadline, or that came with another version of the program or for another session; or that
// the port is taken. InputError when one of them has declined to join, naming it, with its problem.
std::unique_ptr<RankGroup> join_ranks(const RankPlace& place);

// Instead, by a rank that was started in a way that it cannot use: the others, who would wait for
// it, learn of its problem. True when all have heard of it who have to (rank 0, and of rank 0 all
// others) within `patience_s`.
bool decline_to_join(RankPlace place, const std::string& problem, double patience_s);

// Where ranks that all run on this machine meet: a socket for rank 0 to inherit
// (RankPlace::listening_fd), and its port.
struct LocalMeetingPoint {
  OwnedFd socket;
  int port = 0;
};
LocalMeetingPoint open_local_meeting_point();

// 256 bits of the kernel's generator as text: for RankPlace::secret where this program starts the
// ranks itself.
std::string random_text();

// Which of several failures is taken for the cause of all: the lower one. Out of memory before all
// else (by the documents), a rank's own error or end before trouble with communication, which the
// other ranks then have.
int precedence(ReasonCode code);

// Whereabouts of ranks in one line, together those that are at the same place: "rank 2 in the
// forward pass of step 7; ranks 0, 1 and 3 in the backward pass of step 7". Empty: none is known.
std::string whereabouts_text(const std::vector<std::string>& whereabouts);

// The error that ends a rank for `failure`: "rank 2: ...", on several hosts "rank 2 on host n1:
// ...".
RunError error_of(const RankFailure& failure, const std::vector<RankInfo>& ranks);

}  // namespace sftbench
