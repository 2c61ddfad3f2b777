#include "sftbench/measure/stop_rules.h"

#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr double kWarmupSeconds = 60;
constexpr double kStableSeconds = 120;
constexpr int64_t kStableSteps = 10;

}  // namespace

StopRules::StopRules(double stop_after_s, const std::string& auto_stop_method,
                     std::function<void()> on_stable_begin)
    : stop_after_s_(stop_after_s),
      automatic_(!auto_stop_method.empty()),
      on_stable_begin_(std::move(on_stable_begin)) {
  if (automatic_ && auto_stop_method != kAutoStopMethod) {
    throw InputError({{.file = {},
                       .line = 0,
                       .key = "auto_stop_method",
                       .message = "unknown method '" + auto_stop_method + "'",
                       .expected = std::string(kAutoStopMethod) + " or none",
                       .nearest = nearest_spelling(auto_stop_method, {kAutoStopMethod})}});
  }
}

void StopRules::on_step_end(const StepEvent& event, TrainControl& control) {
  if (steps_++ == 0) begin_s_ = event.begin_s;
  if (stop_after_s_ > 0 && event.end_s - begin_s_ >= stop_after_s_) control.stop = true;
  if (!automatic_) return;
  if (warmup_steps_ == 0) {
    if (event.end_s - begin_s_ < kWarmupSeconds) return;
    warmup_steps_ = steps_;
    stable_begin_s_ = event.end_s;
    if (on_stable_begin_) on_stable_begin_();
    return;
  }
  ++stable_steps_;
  if (stable_steps_ >= kStableSteps && event.end_s - stable_begin_s_ >= kStableSeconds) {
    control.stop = true;
  }
}

}  // namespace sftbench
