// When a run stops before its planned steps are done, and which steps are measured.
//
//   stop_after_seconds  ends the run after the first step that ends so long after the first began.
//   WARMUP_60S_STABLE_120S_OR_10_STEPS (auto_stop_method)
//       warm-up: the first steps, until at least 60 s have passed; left out of all figures.
//       stable:  the steps behind it, until they last at least 120 s and are at least 10.
//   stop_when_known     ends the run when its dataset tokens per second are known within so many
//       percent, with 95 % confidence. The rate is the ratio of two sums, tokens and seconds, and
//       its error is that of a ratio estimator (Cochran, Sampling Techniques, section 6.4). Steps
//       that resemble their neighbors count as fewer steps. The first step, or the warm-up above,
//       is left out of all figures.
//   All are checked after each optimization step. The clock is the events' own.
// Source: documentation of the SFTTrainer actuator, "auto_stop_method" and "stop_after_seconds".
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/measure/events.h"

namespace sftbench {

inline constexpr const char* kAutoStopMethod = "WARMUP_60S_STABLE_120S_OR_10_STEPS";

// A run that ended because its rate was known.
struct KnownRate {
  double within_percent = 0;  // half of the interval
  int64_t steps = 0;          // that it was taken from
};

class StopRules : public TrainObserver {
 public:
  // stop_after_s <= 0: never. auto_stop_method: "" or kAutoStopMethod (InputError otherwise).
  // known_percent 0: never.
  // `on_stable_begin` is called once, when the warm-up has ended.
  StopRules(double stop_after_s, const std::string& auto_stop_method,
            std::function<void()> on_stable_begin = {}, double known_percent = 0);

  void on_step_end(const StepEvent& event, TrainControl& control) override;

  // Steps that are left out of the figures. 0 when there is no warm-up, and when the run ended
  // before a step followed the warm-up: then the whole run is all that there is to measure.
  int64_t warmup_steps() const { return stable_steps_ > 0 ? warmup_steps_ : 0; }

  // Nothing when another rule, or nothing, ended the run.
  const std::optional<KnownRate>& known_rate() const { return known_rate_; }

 private:
  bool warm(const StepEvent& event) const;
  void look_at_rate(const StepEvent& event, TrainControl& control);

  double stop_after_s_;
  bool automatic_;
  double known_percent_;
  std::function<void()> on_stable_begin_;
  double begin_s_ = 0;
  double stable_begin_s_ = 0;
  int64_t steps_ = 0;
  int64_t warmup_steps_ = 0;  // 0 while the warm-up lasts
  int64_t stable_steps_ = 0;
  std::vector<double> seconds_, tokens_;  // of the stable steps
  std::optional<KnownRate> known_rate_;
};

}  // namespace sftbench
