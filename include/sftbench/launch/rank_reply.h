// What a rank says to the process that started it, one JSON object per line through a pipe:
//   {"environment": {...}}       rank 0, when the engine stands and again at the end
//   {"begin": {...}}, {"step": {...}}, {"end": {...}}   rank 0: events of training (event_json.h)
//   {"whereabouts": ["in the forward pass of step 7", ...]}   rank 0: of all ranks
//   {"rank_step": n}             the others: n optimization steps are done
//   {"failure": {rank, code, message, evidence}}        this rank ends without success
//   {"done": true}               with success
// After each step rank 0 waits for one byte: may training go on? So observers of the other process
// decide between two steps, as those in this one do.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/measure/events.h"
#include "sftbench/ranks/rank_group.h"

namespace sftbench {

inline constexpr char kGoOn = 'g';
inline constexpr char kStop = 's';

// A failure of no rank but of all of them: they did not meet.
inline constexpr int kNoRank = -1;

class RankReply : public TrainObserver {
 public:
  RankReply(int events_fd, int control_fd, int rank)
      : events_fd_(events_fd), control_fd_(control_fd), rank_(rank) {}

  void environment(const Json& environment) const;
  void whereabouts(const std::vector<std::string>& whereabouts) const;  // from any thread
  void on_load(const LoadEvent& load) override;
  void on_train_begin(const TrainBegin& begin) override;
  void on_step_end(const StepEvent& event, TrainControl& control) override;
  void on_evaluation(const EvaluationEvent& event) override;
  void on_train_end(const TrainEnd& end) override;
  void failed(const RankFailure& failure) const;
  void done() const;

 private:
  void send(const char* kind, const Json& content) const;
  char wait_for_answer() const;

  mutable std::mutex mutex_;  // each line as a whole
  int events_fd_;
  int control_fd_;
  int rank_;
};

Json to_json(const RankFailure& failure);
// Json::exception when it is none.
RankFailure rank_failure_from_json(const Json& json);

}  // namespace sftbench
