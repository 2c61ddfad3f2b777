// What a child that measures says to its parent: heartbeats through a pipe while it runs, and its
// Measurement, twice, through a file that both hold: once as it begins to train, so that even a
// crash has an environment, and once when it has ended. Both ways carry one JSON object per line; a
// line without its end was cut off by the child's death and counts for nothing.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/measure/events.h"
#include "sftbench/results/measurement.h"

namespace sftbench {

// The child's last sign of life.
struct Heartbeat {
  std::string phase = "starting";  // then: dataset, engine, how far it has loaded, training
  int64_t step = 0;                // optimization steps that are done, of the slowest rank
  int64_t total_steps = 0;         // 0: not known yet
  double loss = 0;                 // of the last step
  double tokens_per_s = 0;         // padded, over the steps so far
  int64_t memory_bytes = 0;        // of the device; on CPUs resident
  double received_s = 0;           // steady_seconds()
  std::map<int, int64_t> steps_by_rank;
  std::string whereabouts;  // of its ranks (rank_group.h), where there are several
};

// --- the child's side ----------------------------------------------------------------------------

// Never waits for the parent: a heartbeat that finds the pipe full is dropped.
class HeartbeatSender : public TrainObserver {
 public:
  explicit HeartbeatSender(int fd, int rank = 0);  // fd -1: says nothing

  void phase(const std::string& name);
  // Of another rank than this sender's.
  void rank_step(int rank, int64_t step) const;
  // Of all ranks. No sign of progress: the one that hangs is among them.
  void whereabouts(const std::vector<std::string>& whereabouts) const;
  void on_load(const LoadEvent& load) override;
  void on_train_begin(const TrainBegin& begin) override;
  void on_step_end(const StepEvent& event, TrainControl& control) override;
  void on_evaluation(const EvaluationEvent& event) override;

 private:
  void send(const Json& line) const;

  int fd_;
  int rank_;
  double begin_s_ = 0;
  int64_t padded_tokens_ = 0;
  double memory_read_s_ = 0;
  int64_t resident_bytes_ = 0;
};

// InputError when it cannot be written.
void send_begun(int result_fd, const Measurement& measurement);
void send_result(int result_fd, const Measurement& measurement);

// --- the parent's side ---------------------------------------------------------------------------

// Puts the whole lines of `text` together in `heartbeat` and removes them from it.
void take_heartbeats(std::string& text, Heartbeat& heartbeat);

struct ChildReply {
  std::optional<Measurement> begun;
  std::optional<Measurement> result;
};

// Lines that are not what they should be count for nothing.
ChildReply parse_reply(std::string_view text);

}  // namespace sftbench
